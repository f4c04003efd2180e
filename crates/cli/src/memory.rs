//! The flag `--memory`: the byte budget of all clients of a server. After much of it was used, the
//! freed memory goes back to the system.

use clap::Args;
use quire_access::budget::ByteBudget;

use crate::text::parse_bytes;

/// The byte budget.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MemoryArgs {
    /// Most memory for requests, responses and consumer groups of all clients together, like 512MiB
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    memory: u64,
}

impl MemoryArgs {
    /// Returns the budget.
    pub(crate) fn budget(self) -> ByteBudget {
        ByteBudget::new(self.memory)
    }
}

/// Returns memory to the system after clients have released it.
#[derive(Debug)]
pub(crate) struct FreedMemory {
    budget: ByteBudget,
    /// The most bytes in use since the last return.
    peak: u64,
}

impl FreedMemory {
    /// The least bytes that are worth a return.
    const BYTES_MIN: u64 = 32 << 20;

    pub(crate) fn new(budget: ByteBudget) -> Self {
        FreedMemory { budget, peak: 0 }
    }

    /// Returns the memory once half of the peak is free. To be called about once a second. Returns
    /// whether it did.
    pub(crate) fn look(&mut self) -> bool {
        let used = self.budget.usage().bytes_used;
        self.peak = self.peak.max(used);
        let freed = self.peak - used;
        let is_due = freed >= FreedMemory::BYTES_MIN && freed >= self.peak / 2;
        if is_due {
            self.peak = used;
            quire_mapped::give_back_unused();
        }
        is_due
    }
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if (ByteBudget::BYTES_LEAST..=ByteBudget::BYTES_MOST).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("must be 1MiB to 1TiB, got {bytes} bytes"))
    }
}

#[cfg(test)]
mod tests {
    use quire_access::budget::FrontEnd;

    use super::*;

    #[test]
    fn memory_is_returned_once_half_of_the_peak_is_free() {
        let budget = ByteBudget::default();
        let mut freed = FreedMemory::new(budget.clone());
        let callers = [(); 2].map(|()| budget.caller(FrontEnd::Http, None));
        let [mut large, mut small] = callers.map(|caller| caller.claim());
        assert!(!freed.look(), "there was nothing");
        large.grow(100 << 20).expect("it is free");
        small.grow(40 << 20).expect("it is free");
        assert!(!freed.look(), "all is in use");
        drop(small);
        assert!(!freed.look(), "most is in use");
        drop(large);
        assert!(freed.look());
        assert!(!freed.look(), "it was returned");
    }
}
