"""The one error that bad input raises: where it is, what is wrong, how to correct it, and what was (not) written."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input by the user. The command line prints it without a traceback and exits with code 2.

    >>> print(InputError("label 'catt' is not a class", where="votes.csv:212", hint="Correct the row"))
    votes.csv:212: label 'catt' is not a class.
      Correct the row. Nothing was written.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "", state: str = "Nothing was written.") -> None:
        self.what, self.where, self.hint, self.state = what, where, hint, state
        head = f"{where}: {what}" if where else what
        tail = " ".join(_sentence(part) for part in (hint, state) if part)
        super().__init__(_sentence(head) + (f"\n  {tail}" if tail else ""))

    def __reduce__(self) -> tuple[object, ...]:  # keyword arguments would be lost on the way back from a worker process
        return _restore, (self.what, self.where, self.hint, self.state)


def _restore(what: str, where: str, hint: str, state: str) -> InputError:
    return InputError(what, where=where, hint=hint, state=state)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":")) else text + "."
