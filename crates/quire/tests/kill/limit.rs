//! A limit of the system on the memory that a process takes from now on, so that the process runs
//! out of memory somewhere.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limited memory, and how much more than now the process may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) of: Of,
    pub(crate) more_bytes: u64,
    /// Whether the limit starts before the database is opened, or at the first commit.
    pub(crate) while_opening: bool,
}

/// See [`Limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The heap: an allocation fails.
    Heap,
    /// All mapped memory, including files: an allocation fails, or the mapping of a file.
    Space,
}

impl Limit {
    pub(crate) fn to_text(self) -> String {
        let of = if self.of == Of::Heap { "heap" } else { "space" };
        format!("{of} {} {}", self.more_bytes, self.while_opening)
    }

    pub(crate) fn of_text(text: &str) -> Self {
        let [of, more_bytes, while_opening] = text.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a limit: {text}")
        };
        let of = if of == "heap" { Of::Heap } else { Of::Space };
        let more_bytes = more_bytes.parse().expect("a number");
        Limit { of, more_bytes, while_opening: while_opening == "true" }
    }

    /// Starts the limit, for this process.
    pub(crate) fn begin(self) {
        let (resource, line) = match self.of {
            Of::Heap => (Resource::Data, "VmData:"),
            Of::Space => (Resource::As, "VmSize:"),
        };
        let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
        let taken = status.lines().find_map(|text| text.strip_prefix(line)).expect("it tells how much there is");
        let taken_kib: u64 = taken.trim().trim_end_matches(" kB").parse().expect("a number");
        let current = Some((taken_kib << 10) + self.more_bytes);
        setrlimit(resource, Rlimit { current, maximum: getrlimit(resource).maximum }).expect("less than before");
    }
}
