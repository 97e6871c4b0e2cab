"""Every error regard raises on purpose, in one family.

    RegardError
    ├── InputError          (ValueError)      an argument that has no valid meaning; exit 2
    │   ├── ShapeError                        sizes that do not fit together
    │   ├── DTypeError      (TypeError)       a dtype or type of object that is not accepted
    │   └── DeviceError                       tensors on different devices
    ├── UnavailableError    (RuntimeError)    a sound request nothing here can serve; lists why
    ├── MissingExtraError   (ImportError)     an optional dependency is not installed
    ├── StaleError          (RuntimeError)    q or k changed after the attention was computed
    ├── GradientError       (RuntimeError)    a gradient that is not offered was asked for
    ├── TooLargeError       (MemoryError)     a dense matrix, or a recorded model, does not fit
    └── FileError           (OSError)         a file that is damaged or of another format; exit 3

Each message says what was asked, what was given and what would work. On the command line it is
printed as one line; `exit_code` is the status the process ends with.
"""

from __future__ import annotations

from typing import ClassVar


class RegardError(Exception):
    """The root of the family."""

    exit_code: ClassVar[int] = 1


class InputError(RegardError, ValueError):
    """An argument that has no valid meaning."""

    exit_code = 2


class ShapeError(InputError):
    """Sizes that do not fit together."""


class DTypeError(InputError, TypeError):
    """A dtype or type of object that is not accepted here."""


class DeviceError(InputError):
    """Tensors that must be on one device are on several."""


class UnavailableError(RegardError, RuntimeError):
    """A sound request that nothing on this machine can serve. `reasons` lists why, one each."""

    exit_code = 2

    def __init__(self, message: str, reasons: dict[str, list[str]] | None = None) -> None:
        self.reasons = reasons or {}
        lines = [f"{name}: {'; '.join(why)}" for name, why in self.reasons.items()]
        self.message = message
        super().__init__("\n  ".join([message, *lines]))

    def __reduce__(self) -> tuple[type[UnavailableError], tuple[str, dict[str, list[str]]]]:
        return type(self), (self.message, self.reasons)


class MissingExtraError(RegardError, ImportError):
    """An optional dependency is not installed, or `installed` is older than the `oldest` that
    works."""

    exit_code = 2

    def __init__(
        self, what: str, package: str, extra: str, installed: str = "", oldest: str = ""
    ) -> None:
        self.what, self.package, self.extra = what, package, extra
        self.installed, self.oldest = installed, oldest
        if installed:
            needs = f"{package} {oldest} or newer, and {installed} is installed; update it"
            super().__init__(f"{what} needs {needs} with: pip install -U 'regard[{extra}]'")
        else:
            super().__init__(
                f"{what} needs the package '{package}', which is not installed; "
                f"install it with: pip install 'regard[{extra}]'"
            )

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, ...]]:
        given = (self.what, self.package, self.extra, self.installed, self.oldest)
        return type(self), given


class StaleError(RegardError, RuntimeError):
    """A tensor was changed in place after the attention over it was computed."""


class GradientError(RegardError, RuntimeError):
    """A gradient that is not offered was asked for."""


class TooLargeError(RegardError, MemoryError):
    """The dense matrix would not fit in a sensible amount of memory, or a model that is recorded
    does not fit its device."""


class FileError(RegardError, OSError):
    """A file that is damaged or is not in a format of regard."""

    exit_code = 3


class RegardWarning(UserWarning):
    """A warning of regard."""
