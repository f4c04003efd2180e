//! Why jobs change their state.

/// Why a job took a step. The numbers are those of the entry kinds, from 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its time to run came.
    Due,
    /// A worker fetched it.
    Leased,
    /// Its worker acknowledged it.
    Completed,
    /// Its worker failed it.
    Failed,
    /// Its lease expired without a heartbeat.
    LeaseExpired,
    /// Its attempt took longer than its timeout.
    TimedOut,
    /// Its worker gave it back for later.
    Snoozed,
    /// A client cancelled it.
    Cancelled,
    /// A client put it on hold.
    Held,
    /// A client released it.
    Released,
    /// A client changed its run time.
    Rescheduled,
    /// It was not begun before it expired.
    Expired,
    /// A client deleted it.
    Deleted,
    /// A newer job of its key took its place.
    Replaced,
    /// Its payload could not be read.
    Unreadable,
}

impl Cause {
    pub(crate) const ALL: [Cause; 15] = [
        Cause::Due,
        Cause::Leased,
        Cause::Completed,
        Cause::Failed,
        Cause::LeaseExpired,
        Cause::TimedOut,
        Cause::Snoozed,
        Cause::Cancelled,
        Cause::Held,
        Cause::Released,
        Cause::Rescheduled,
        Cause::Expired,
        Cause::Deleted,
        Cause::Replaced,
        Cause::Unreadable,
    ];

    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Due => "due",
            Cause::Leased => "leased",
            Cause::Completed => "completed",
            Cause::Failed => "failed",
            Cause::LeaseExpired => "lease expired",
            Cause::TimedOut => "timed out",
            Cause::Snoozed => "snoozed",
            Cause::Cancelled => "cancelled",
            Cause::Held => "held",
            Cause::Released => "released",
            Cause::Rescheduled => "rescheduled",
            Cause::Expired => "expired",
            Cause::Deleted => "deleted",
            Cause::Replaced => "replaced",
            Cause::Unreadable => "unreadable",
        }
    }
}
