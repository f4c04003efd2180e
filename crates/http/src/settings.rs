//! The settings of the server, as plain data.

/// The settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Maximum memory of all responses together, in bytes, from when they are built until their
    /// clients have read them. Responses of at most 64 KiB do not count. A response without memory
    /// is refused with status 503 and a time to retry. A response that exceeds the whole limit is
    /// refused with 413. Default: 1 GiB; 1 MiB to 1 TiB.
    pub memory_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { memory_bytes_max: 1 << 30 }
    }
}

impl Settings {
    /// The largest value: practically no limit, for a server of one's own.
    pub const MEMORY_BYTES_MOST: u64 = 1 << 40;

    /// Returns every invalid setting, with its value and range.
    pub fn problems(&self) -> Vec<String> {
        let (least, most, bytes) = (1 << 20, Settings::MEMORY_BYTES_MOST, self.memory_bytes_max);
        let is_wrong = !(least..=most).contains(&bytes);
        is_wrong.then(|| format!("memory_bytes_max must be {least} to {most}, got {bytes}")).into_iter().collect()
    }
}
