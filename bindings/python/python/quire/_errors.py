"""The exceptions of the database: one class for each kind of error.

`code` and `facts` are those of `docs/errors.md`, with durations in milliseconds.
"""

Fact = int | str | None


class Error(Exception):
    """An error of the database. `request_id` names the request in the log of a server."""

    def __init__(
        self,
        message: str,
        code: str = "error",
        facts: dict[str, Fact] | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.facts: dict[str, Fact] = facts or {}
        self.request_id = request_id

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, dict[str, Fact], str | None]]:
        return type(self), (str(self), self.code, self.facts, self.request_id)


class Refused(Error):
    """A part of the commit was refused, and nothing was done. Decide again."""


class ConditionFailed(Refused):
    """An event conflicts with a condition of the append."""


class StaleLease(Refused):
    """The lease of the job no longer holds. Discard the work."""


class VersionMismatch(Refused):
    """The block has another version than the commit expects."""


class NotADatabase(Error):
    """The directory holds something else."""


class InUse(Error):
    """Another process has the database open, or it was opened before a fork."""


class NewerFormat(Error):
    """The files are of a newer format."""


class Damaged(Error):
    """Files are damaged. The message names file and byte."""


class Invalid(Error):
    """A setting, a name or an argument is invalid."""


class NotFound(Error):
    """The named thing does not exist."""


class Gone(Error):
    """The history was trimmed. The message names the first position that is left."""


class TooLarge(Error):
    """The commit exceeds the bytes of a record. Split it."""


class TooCostly(Error):
    """The request needs more steps than its budget has."""


class Cancelled(Error):
    """The request was cancelled, and nothing was done."""


class Overloaded(Error):
    """A queue has as many jobs as it may. Retry later."""


class HandlerFailed(Error):
    """The handler of a consumer failed, and its records were not committed as read."""


class ReadOnly(Error):
    """The database was opened read-only."""


class DiskFull(Error):
    """The disk is full. Reads work."""


class Unsettled(Error):
    """The commit may or may not survive. Look for its effect."""


class Failed(Error):
    """The database is closed or can no longer keep its promises. Open it again."""


class NotPermitted(Error):
    """The client has no valid key, or lacks a permission."""


class IoFailed(Error):
    """The operating system refused an operation on a file."""


class Unanswered(Error):
    """No server gave a whole answer. It may have done what was asked: look for the effect."""


_BY_CODE: dict[str, type[Error]] = {
    "condition_failed": ConditionFailed,
    "stale_lease": StaleLease,
    "version_mismatch": VersionMismatch,
    "in_use": InUse,
}

# By the kinds of the Rust API, and of its client.
_BY_KIND: dict[str, type[Error]] = {
    "NotADatabase": NotADatabase,
    "InUse": InUse,
    "NewerFormat": NewerFormat,
    "Damaged": Damaged,
    "Invalid": Invalid,
    "NotFound": NotFound,
    "Gone": Gone,
    "TooLarge": TooLarge,
    "Refused": Refused,
    "TooCostly": TooCostly,
    "Cancelled": Cancelled,
    "Overloaded": Overloaded,
    "Handler": HandlerFailed,
    "ReadOnly": ReadOnly,
    "NoSpace": DiskFull,
    "Unsettled": Unsettled,
    "Failed": Failed,
    "NotPermitted": NotPermitted,
    "Io": IoFailed,
    "Unanswered": Unanswered,
}


def _make(kind: str, code: str, message: str, facts: dict[str, Fact], request_id: str | None) -> Error:
    """The exception of an error, for the module in Rust."""
    return _BY_CODE.get(code, _BY_KIND.get(kind, Error))(message, code, facts, request_id)
