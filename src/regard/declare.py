"""Values that are declared once: masks, biases, score rules and statistics.

    class Padding(Mask):
        tag = "padding/1"
        keys: Any = array(flags="keys")                      # (*batch,) lengths or (*batch, keys)
        queries: Any = array(flags="queries", default=None)

A subclass states its fields; it becomes a frozen dataclass. `array` marks fields that hold numbers
and names their axes, `part` fields that hold another declared value; every other field is a
constant. `arrays`, `map`, `select`, `cut`, `check` and the codec follow from that.

The codec is the only textual form, in torch's operators and in files alike: JSON, one node
`[tag, {field: value}]` for each value, `{"array": n}` for the n-th of `arrays()`. Tags are explicit
and versioned, so renaming a class breaks no file, and unique, so no class takes another's place. A
class without a tag, and a function, get a number that is valid in this process only: a file
cannot name them.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import weakref
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from regard.arrays import as_array, brief, check_broadcast, is_bool, is_traced, pick
from regard.errors import InputError

if TYPE_CHECKING:
    from typing import Self

    from regard.mask import Extent

_TAG = re.compile(r"[a-z][a-z0-9_.-]*/[1-9][0-9]*")
_LONGEST = 1 << 16  # characters of a text
_DEEPEST = 64  # brackets in each other
_WHOLE = 2**53  # whole numbers beyond are no constants of ours

_LOCAL = "local/"  # texts call classes without a tag so, and a number

_classes: dict[str, type[Declared]] = {}  # by what texts call them
_numbers = itertools.count()

_Kind = TypeVar("_Kind", bound="Declared")
# name, "array" | "part" | "constant", axes, axis of booleans, whether batch axes may lead
_Plan = tuple[str, str, tuple[str, ...], str | None, bool]


def array(*axes: str, flags: str | None = None, batch: bool = True, default: Any = MISSING) -> Any:
    """A field of numbers (*batch, *axes). Booleans have the axis `flags` besides. Without `batch`
    it is the same for every batch entry."""
    return field(default=default, metadata={"plan": ("array", axes, flags, batch)})


def part(default: Any = MISSING) -> Any:
    """A field that holds another declared value."""
    return field(default=default, metadata={"plan": ("part", (), None, True)})


@dataclass_transform(frozen_default=True, field_specifiers=(field, array, part))
class Declared(ABC):  # noqa: B024 - subclasses say what is abstract
    """A frozen value whose fields are declared."""

    tag: ClassVar[str | None] = None  # "name/version": what texts call the class
    family: ClassVar[str] = "value"  # what messages call it: a mask, a bias, a statistic
    _plan: ClassVar[tuple[_Plan, ...]] = ()
    is_flat: ClassVar[bool] = True  # numbers and words alone: equal where it means the same
    _word: ClassVar[str] = ""  # what texts call this very class; a subclass never inherits it

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declared = inspect.get_annotations(cls)
        holds_arrays = any(plan[1] == "array" for plan in cls._plan) or any(
            _plan_of(cls.__dict__.get(name))[0] == "array" for name in declared
        )
        # arrays have no truth value, so values that hold some are equal to themselves alone
        dataclass(frozen=True, repr=False, eq=not holds_arrays)(cls)
        if holds_arrays:  # and not as a base without fields has it
            cls.__eq__, cls.__hash__ = object.__eq__, object.__hash__  # type: ignore[method-assign]
        cls._plan = tuple(
            (one.name, *one.metadata.get("plan", ("constant", (), None, True)))
            for one in fields(cls)  # type: ignore[arg-type]
        )
        named = {one.name: str(one.type) for one in fields(cls)}  # type: ignore[arg-type]
        cls.is_flat = all(
            kind == "constant" and "Callable" not in named[name] for name, kind, *_ in cls._plan
        )
        own = cls.__dict__.get("tag")
        cls._word = f"{_LOCAL}{next(_numbers)}" if own is None else _checked_tag(own, cls)
        _classes[cls._word] = cls

    # ── what follows from the fields ─────────────────────────────────────────────────────────

    def _arrays_by_field(self) -> Iterator[tuple[str, Any, tuple[str, ...], bool]]:
        """Name, array, its axes after the batch, whether batch axes may lead."""
        for name, kind, axes, flags, batch in self._plan:
            value = getattr(self, name)
            if kind == "array" and value is not None:
                yield name, value, (*axes, flags) if flags and is_bool(value) else axes, batch

    def _with(
        self,
        parts: Callable[[Any], Any],
        arrays: Callable[[Any, tuple[str, ...], bool], Any],
    ) -> Self:
        """The same value with its parts and arrays replaced."""
        if all(kind == "constant" for _, kind, *_ in self._plan):
            return self
        made, same = {}, True
        for name, kind, axes, flags, batch in self._plan:
            before = value = getattr(self, name)
            if kind == "part" and value is not None:
                value = parts(value)
            elif kind == "array" and value is not None:
                value = arrays(value, (*axes, flags) if flags and is_bool(value) else axes, batch)
            made[name], same = value, same and value is before
        return self if same else type(self)(**made)

    def parts(self) -> Iterator[Declared]:
        """The declared values inside."""
        for name, kind, *_ in self._plan:
            value = getattr(self, name) if kind == "part" else None
            if value is not None:
                yield value

    def arrays(self) -> Iterator[Any]:
        """The arrays inside, in a fixed order."""
        for name, kind, *_ in self._plan:
            value = None if kind == "constant" else getattr(self, name)
            if value is not None and kind == "part":
                yield from value.arrays()
            elif value is not None:
                yield value

    def traceable(self) -> Self:
        """While torch traces, the same value with tensors in place of numpy's arrays."""
        if self.is_flat or not is_traced():
            return self
        made = {plan[0]: getattr(self, plan[0]) for plan in self._plan}
        for name in (n for n, kind, *_ in self._plan if kind != "constant" and made[n] is not None):
            made[name] = getattr(made[name], "traceable", lambda n=name: as_array(made[n]))()
        return type(self)(**made)

    def map(self, convert: Callable[[Any], Any]) -> Self:
        """The same value with each array replaced by convert(array)."""
        return self._with(lambda inner: inner.map(convert), lambda value, *_: convert(value))

    def select(self, batch: tuple[int, ...]) -> Self:
        """The same value seen from one batch entry."""

        def entry(value: Any, axes: tuple[str, ...], batched: bool) -> Any:
            return pick(value, batch, len(axes)) if batched else value

        return self._with(lambda inner: inner.select(batch), entry)

    def cut(
        self,
        extent: Extent,
        batch: Sequence[range],
        heads: range,
        queries: range | None = None,
        keys: range | None = None,
    ) -> Self:
        """The same value about some entries and query heads of the problem `extent`, and some of
        its queries and keys where given. An axis of size one speaks for all."""
        spans = {"heads": heads, "queries": queries, "keys": keys}

        def some(value: Any, axes: tuple[str, ...], batched: bool) -> Any:
            places = {len(axes) - n: spans.get(axis) for n, axis in enumerate(axes)}
            if batched:
                places |= {len(axes) + 1 + n: span for n, span in enumerate(reversed(batch))}
            for from_end, span in places.items():
                axis = value.ndim - from_end
                if span is not None and axis >= 0 and value.shape[axis] != 1:
                    value = value[(slice(None),) * axis + (slice(span.start, span.stop),)]
            return value

        inside = self.within(extent)
        return self._with(lambda inner: inner.cut(inside, batch, heads, queries, keys), some)

    def within(self, extent: Extent) -> Extent:
        """The problem that the parts speak of, from the one this value speaks of."""
        return extent

    def check(self, problem: Any) -> None:
        """Raise ShapeError where an array inside does not fit the problem, an Extent or something
        that has one."""
        extent = getattr(problem, "extent", problem)
        sizes = {"heads": extent.heads, "queries": extent.queries, "keys": extent.keys}
        for name, value, axes, batched in self._arrays_by_field():
            full = tuple(sizes.get(axis, size) for axis, size in _trailing(axes, value.shape))
            lead = tuple(extent.batch) if batched else ()
            said = ", ".join(("…", *axes) if batched else axes)
            check_broadcast(
                value.shape, (*lead, *full), f"{type(self).__name__}({name})", f"({said})"
            )
        for inner in self.parts():
            inner.check(self.within(extent))

    def check_fields(self) -> None:
        """Raise InputError where a field holds an array and does not say so: it would be taken for
        a constant by whatever is remembered or written down."""
        for name, kind, *_ in self._plan:
            value = getattr(self, name)
            if kind == "part" and value is not None:
                value.check_fields()
            elif kind == "constant" and hasattr(value, "shape"):
                if len(value.shape) > 0 or hasattr(value, "requires_grad"):
                    raise InputError(
                        f"{type(self).__name__}.{name} holds an array; declare it, with its axes: "
                        f"{name}: Any = array(...)"
                    )

    def structure(self) -> tuple[Any, ...]:
        """Everything but the contents of arrays: hashable, equal where the same code serves both.
        Functions stand for themselves."""
        words: list[Any] = [type(self)]
        for name, kind, *_ in self._plan:
            value = getattr(self, name)
            if value is None or kind == "constant":
                words.append(value)
            elif kind == "part":
                words.append(value.structure())
            else:
                words.append((value.dtype, tuple(value.shape)))
        return tuple(words)

    def __repr__(self) -> str:
        given = ", ".join(f"{plan[0]}={brief(getattr(self, plan[0]))}" for plan in self._plan)
        return f"{type(self).__name__}({given})"


def check_parts(value: Declared, kind: type[Declared]) -> None:
    """Raise InputError unless every part is of the kind; None where that is the default."""
    for name, what, *_ in value._plan:
        inner = getattr(value, name)
        left_out = inner is None and getattr(type(value), name, MISSING) is None
        if what == "part" and not left_out and not isinstance(inner, kind):
            given = type(inner).__name__
            raise InputError(f"{type(value).__name__}({name}) is a {given}; give a {kind.family}")


def _plan_of(default: Any) -> tuple[Any, ...]:
    """What a class attribute says of the field it is the default of."""
    metadata = getattr(default, "metadata", {})
    return metadata.get("plan", ("constant",)) if hasattr(metadata, "get") else ("constant",)


def _trailing(axes: tuple[str, ...], shape: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Axis names with the sizes they have, 1 where the array has fewer axes."""
    for n, axis in enumerate(axes):
        at = len(shape) - len(axes) + n
        yield axis, shape[at] if at >= 0 else 1


# ── tags and numbers ─────────────────────────────────────────────────────────────────────────

_number_of: weakref.WeakKeyDictionary[Callable[..., Any], int] = weakref.WeakKeyDictionary()
_function_of: weakref.WeakValueDictionary[int, Callable[..., Any]] = weakref.WeakValueDictionary()
_held: dict[int, Callable[..., Any]] = {}  # callables that take no weak references, for good


def _checked_tag(tag: Any, cls: type[Declared]) -> str:
    if not isinstance(tag, str) or not _TAG.fullmatch(tag) or tag.startswith(_LOCAL):
        raise InputError(
            f"{cls.__qualname__}.tag is {tag!r}; give a name and a version, such as 'dilated/1'"
        )
    other = _classes.get(tag)
    if other is not None and _home(other) != _home(cls):  # a notebook's cell may run twice
        raise InputError(
            f"{_home(cls)}: the tag {tag!r} is taken by {_home(other)}; give it one of its own"
        )
    return tag


def _home(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _number(fn: Callable[..., Any]) -> int:
    try:
        if fn not in _number_of:
            _number_of[fn] = number = next(_numbers)
            _function_of[number] = fn
        return _number_of[fn]
    except TypeError:  # not hashable, or not to be referred to weakly: known by identity
        return _number_by_identity(fn)


_number._dynamo_marked_constant = True  # type: ignore[attr-defined]  # to traced code


def _number_by_identity(fn: Callable[..., Any]) -> int:
    for number, other in [*_function_of.items(), *_held.items()]:
        if other is fn:
            return number
    number = next(_numbers)
    try:
        _function_of[number] = fn
    except TypeError:
        _held[number] = fn
    return number


def _function(number: Any) -> Callable[..., Any]:
    fn = (_held.get(number) or _function_of.get(number)) if isinstance(number, int) else None
    if fn is None:
        raise InputError("the function of this Rule is gone; keep a reference to it")
    return fn


# ── the codec ────────────────────────────────────────────────────────────────────────────────


def encode(value: Declared | None) -> str:
    """The value as text; its arrays follow in the order of `arrays()`. Written out by hand, not by
    `json`, because torch.compile traces it."""
    return _node(value, itertools.count())


def encode_all(values: Sequence[Declared]) -> str:
    """Several values as one text; their arrays follow one another."""
    places = itertools.count()
    return f"[{','.join([_node(value, places) for value in values])}]"


def decode_all(text: str, arrays: Iterator[Any], kind: type[_Kind]) -> tuple[_Kind, ...]:
    """The values that `encode_all` wrote."""
    return tuple(_of_kind(_built(tree, arrays), kind) for tree in _parsed(text))


def _of_kind(value: Declared, kind: type[_Kind]) -> _Kind:
    if not isinstance(value, kind):
        raise InputError(f"{value._word!r} is a {value.family}, not a {kind.family}")
    return value


def is_portable(value: Declared) -> bool:
    """Whether another process can read the text: each class has a tag, none holds a function."""
    own = not value._word.startswith(_LOCAL) and not any(
        kind == "constant" and callable(getattr(value, name)) for name, kind, *_ in value._plan
    )
    return own and all(map(is_portable, value.parts()))


def _node(value: Declared | None, places: Iterator[int]) -> str:
    if value is None:
        return "null"
    words = []
    for name, kind, *_ in value._plan:
        given = getattr(value, name)
        if given is None:
            word = "null"
        elif kind == "part":
            word = _node(given, places)
        elif kind == "array":
            word = f'{{"array":{next(places)}}}'
        else:
            word = _constant(given, type(value))
        words.append(f'"{name}":{word}')
    return f'["{value._word}",{{{",".join(words)}}}]'


def _constant(given: Any, cls: type) -> str:
    if given is True or given is False:
        return "true" if given else "false"
    if isinstance(given, str):
        if not given.isidentifier():
            raise InputError(f"{cls.__name__} holds the text {given!r}; constants are single words")
        return f'"{given}"'
    if isinstance(given, float):
        return repr(float(given))
    if hasattr(given, "__index__"):  # also numpy's, and a symbol's number while torch traces
        return f"{int(given)}"
    if isinstance(given, tuple):
        inside = ",".join("null" if one is None else _constant(one, cls) for one in given)
        return f'{{"tuple":[{inside}]}}'
    if callable(given):
        return f'{{"function":{_number(given)}}}'
    if hasattr(given, "__float__"):
        return repr(float(given))
    raise InputError(
        f"{cls.__name__} holds a {type(given).__name__}; a declared field holds numbers, words, "
        "None, tuples of them, a function, an array() or a part()"
    )


def decode(text: str, arrays: Iterator[Any], kind: type[_Kind]) -> _Kind | None:
    """The value of this kind that `encode` wrote, over these arrays; InputError where there is no
    such class here, or the text is none of ours."""
    tree = _parsed(text)
    return None if tree is None else _of_kind(_built(tree, arrays), kind)


def tags_in(text: str) -> list[str]:
    """The tags that a text names; none where it is no text of ours."""
    try:
        return list(_walk_tags(_parsed(text)))
    except InputError:
        return []


def is_tag_known(tag: str) -> bool:
    """Whether a class with this tag is defined in this process."""
    return tag in _classes


def _walk_tags(tree: Any) -> Iterator[str]:
    if _is_node(tree):
        yield tree[0]
        for inner in tree[1].values():
            yield from _walk_tags(inner)


def functions_in(text: str) -> list[Callable[..., Any]]:
    """The functions a text names; holding them keeps the text valid."""
    return list(_walk_functions(_parsed(text)))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    deep = list(itertools.accumulate((c in "[{") - (c in "]}") for c in text[:_LONGEST]))
    if len(text) > _LONGEST or max(deep, default=0) > _DEEPEST:
        raise InputError("longer or deeper than any mask or score rule")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InputError(f"no text of a mask or score rule: {text!r:.60}") from error


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no constant")


def _walk_functions(tree: Any) -> Iterator[Callable[..., Any]]:
    if isinstance(tree, dict) and "function" in tree:
        yield _function(tree["function"])
    for inner in tree.values() if isinstance(tree, dict) else tree if _is_node(tree) else ():
        yield from _walk_functions(inner)


def _is_node(tree: Any) -> bool:
    return (
        isinstance(tree, list)
        and len(tree) == 2
        and isinstance(tree[0], str)
        and isinstance(tree[1], dict)
    )


def _built(tree: Any, arrays: Iterator[Any]) -> Declared:
    if not _is_node(tree):
        raise InputError(f"no mask, bias or statistic: {tree!r:.60}")
    tag, given = tree
    cls = _classes.get(tag)
    if cls is None:
        raise InputError(
            f"there is no {tag!r} here; import the module that defines the class with this tag"
        )
    plans = {plan[0]: plan[1] for plan in cls._plan}
    if unknown := given.keys() - plans.keys():
        raise InputError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
    made = {name: _field(value, plans[name], arrays) for name, value in given.items()}
    try:
        return cls(**made)
    except TypeError as error:
        raise InputError(f"{cls.__name__}: {error}") from error


def _field(value: Any, kind: str, arrays: Iterator[Any]) -> Any:
    if value is None:
        return None
    if kind == "part":
        return _built(value, arrays)
    if kind == "array":
        if not isinstance(value, dict) or set(value) != {"array"}:
            raise InputError(f"{value!r:.60} stands where an array belongs")
        try:
            return next(arrays)
        except StopIteration:
            raise InputError("fewer arrays than the text names") from None
    return _constant_of(value)


def _constant_of(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"function"}:
        return _function(value["function"])
    if isinstance(value, dict) and set(value) == {"tuple"} and isinstance(value["tuple"], list):
        return tuple(_constant_of(one) for one in value["tuple"])
    if isinstance(value, int) and abs(value) >= _WHOLE:
        raise InputError(f"{value!r:.60} is no number of ours")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"{value!r:.60} is no constant")
