//! One file: what processes see of it, and what is on the device.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fastrand::Rng;
use rustix::fs::MemfdFlags;
use xxhash_rust::xxh3::xxh3_64;

/// A device writes so many bytes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct Inode {
    /// A file of the real kernel's memory, so that it can be mapped and written as any other. Processes that died keep
    /// the one they had; see [`Inode::detach`].
    pub(super) cache: Arc<File>,
    device: Vec<u8>,
    /// Sectors that a failed sync took for written, by the hash of what they held then: a later sync passes them over
    /// until they are changed.
    stale: BTreeMap<usize, u64>,
}

/// How much of what was not synced a loss of power leaves, in 256ths; drawn anew for every loss.
#[derive(Debug, Clone, Copy)]
pub(super) struct Survival(pub(super) u16);

impl Survival {
    fn draw(self, random: &mut Rng) -> bool {
        random.u16(0..256) < self.0
    }
}

impl Inode {
    pub(super) fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        Ok(Inode { cache: memory(bytes)?, device: bytes.to_vec(), stale: BTreeMap::new() })
    }

    /// What processes see.
    pub(super) fn cached(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.cached_into(&mut bytes)?;
        Ok(bytes)
    }

    /// The same, in place of what these bytes are.
    pub(super) fn cached_into(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(usize::try_from(self.cache.metadata()?.len()).expect("small"), 0);
        self.cache.read_exact_at(bytes, 0)
    }

    /// What is on the device.
    pub(super) fn device(&self) -> &[u8] {
        &self.device
    }

    /// Notes that bytes were written through the file: they are dirty again whatever they were.
    pub(super) fn note_write(&mut self, offset: usize, bytes: usize) {
        let end = offset + bytes;
        self.stale.retain(|sector, _| {
            let begin = sector * SECTOR_BYTES;
            end <= begin || begin + SECTOR_BYTES <= offset
        });
    }

    /// Puts what processes see on the device.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let cached = self.cached()?;
        for sector in self.dirty(&cached) {
            self.put(sector, &cached);
        }
        self.device.resize(cached.len(), 0);
        Ok(())
    }

    /// A sync that fails: some of it was put on the device, and the rest never is unless it is written again.
    pub(super) fn fail_sync(&mut self, random: &mut Rng) -> io::Result<()> {
        let cached = self.cached()?;
        let survival = Survival(random.u16(0..=256));
        for sector in self.dirty(&cached) {
            if survival.draw(random) {
                self.put(sector, &cached);
            } else {
                self.stale.insert(sector, xxh3_64(sector_of(&cached, sector)));
            }
        }
        Ok(())
    }

    /// The kernel puts some of it on the device by itself.
    pub(super) fn write_back(&mut self, survival: Survival, random: &mut Rng) -> io::Result<()> {
        let cached = self.cached()?;
        for sector in self.dirty(&cached) {
            if survival.draw(random) {
                self.put(sector, &cached);
            }
        }
        Ok(())
    }

    /// The power goes: what is on the device is all there is, and of the rest what the device still got.
    pub(super) fn lose_power(&mut self, survival: Survival, random: &mut Rng) -> io::Result<()> {
        let cached = self.cached()?;
        self.write_back(survival, random)?;
        // How long the file is may be known or not, whatever became of its bytes.
        if survival.draw(random) {
            self.device.resize(cached.len(), 0);
        }
        self.stale.clear();
        self.cache = memory(&self.device)?;
        Ok(())
    }

    /// What processes see from now on is a copy: whoever has the file mapped changes nothing any more.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        self.cache = memory(&self.cached()?)?;
        Ok(())
    }

    /// Every process sees this from now on, also through its mappings.
    pub(super) fn overwrite(&self, bytes: &[u8]) -> io::Result<()> {
        if self.cached()? == bytes {
            return Ok(());
        }
        self.cache.set_len(bytes.len() as u64)?;
        self.cache.write_all_at(bytes, 0)
    }

    /// Every process sees this from now on, and it is what the device holds. It is as long as what was there.
    pub(super) fn rot(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.cache.write_all_at(bytes, 0)?;
        self.device = bytes.to_vec();
        self.stale.clear();
        Ok(())
    }

    /// What processes see from now on is this.
    pub(super) fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.cache = memory(bytes)?;
        Ok(())
    }

    /// The sectors that are not on the device, and would be put there by a sync.
    pub(super) fn dirty(&self, cached: &[u8]) -> Vec<usize> {
        let dirty = |sector: &usize| {
            let now = sector_of(cached, *sector);
            now != sector_of(&self.device, *sector) && self.stale.get(sector) != Some(&xxh3_64(now))
        };
        (0..cached.len().div_ceil(SECTOR_BYTES)).filter(dirty).collect()
    }

    fn put(&mut self, sector: usize, cached: &[u8]) {
        let now = sector_of(cached, sector);
        let begin = sector * SECTOR_BYTES;
        if self.device.len() < begin + now.len() {
            self.device.resize(begin + now.len(), 0);
        }
        self.device[begin..begin + now.len()].copy_from_slice(now);
        self.stale.remove(&sector);
    }
}

/// A sector's bytes; the last one of a file may be short, and one behind it has none.
fn sector_of(bytes: &[u8], sector: usize) -> &[u8] {
    let begin = (sector * SECTOR_BYTES).min(bytes.len());
    &bytes[begin..(begin + SECTOR_BYTES).min(bytes.len())]
}

fn memory(bytes: &[u8]) -> io::Result<Arc<File>> {
    let file = File::from(rustix::fs::memfd_create("quire-sim", MemfdFlags::CLOEXEC)?);
    file.write_all_at(bytes, 0)?;
    Ok(Arc::new(file))
}
