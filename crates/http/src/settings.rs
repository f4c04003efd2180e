//! What can be chosen about the server, as plain data.

/// How the server is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The most bytes that answers may take together, those of at most 64 KiB aside, from when they are put together until their clients have
    /// read them. An answer for which there is no room is refused with status 503, and when to ask again; one that takes more than this
    /// alone, with 413. Default: 1 GiB; 1 MiB to 1 TiB.
    pub memory_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { memory_bytes_max: 1 << 30 }
    }
}

impl Settings {
    /// The most that can be chosen: as good as no bound, for who serves itself.
    pub const MEMORY_BYTES_MOST: u64 = 1 << 40;

    /// What can't be, each named with what it is and has to be.
    pub fn problems(&self) -> Vec<String> {
        let (least, most, bytes) = (1 << 20, Settings::MEMORY_BYTES_MOST, self.memory_bytes_max);
        let is_wrong = !(least..=most).contains(&bytes);
        is_wrong.then(|| format!("memory_bytes_max is {bytes}, and must be {least} to {most}")).into_iter().collect()
    }
}
