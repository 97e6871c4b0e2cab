"""The file format, SPEC.md: bytes, frames, writing and verifying. What they mean is `schema`."""
