//! A file: its content for processes, and its content on the device.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fastrand::Rng;
use rustix::fs::MemfdFlags;
use xxhash_rust::xxh3::xxh3_64;

/// A device writes a sector of this size whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct Inode {
    /// A file in the memory of the real kernel, so that it can be mapped and written like any
    /// other. A dead process keeps its old file; see [`Inode::detach`].
    pub(super) cache: Arc<File>,
    device: Vec<u8>,
    /// Sectors that a failed sync treats as written, by the hash of their content then: a later
    /// sync skips them until they change.
    stale: BTreeMap<usize, u64>,
}

/// The share of unsynced sectors that survives a power loss, in 256ths; drawn again for every loss.
#[derive(Debug, Clone, Copy)]
pub(super) struct SectorSurvival(pub(super) u16);

impl SectorSurvival {
    fn draw(self, random: &mut Rng) -> bool {
        random.u16(0..256) < self.0
    }
}

impl Inode {
    pub(super) fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        Ok(Inode { cache: memory(bytes)?, device: bytes.to_vec(), stale: BTreeMap::new() })
    }

    /// The content for processes.
    pub(super) fn cached(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.cached_into(&mut bytes)?;
        Ok(bytes)
    }

    /// The same, reusing the allocation of `bytes`.
    pub(super) fn cached_into(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(usize::try_from(self.cache.metadata()?.len()).expect("small"), 0);
        self.cache.read_exact_at(bytes, 0)
    }

    /// The content of the device.
    pub(super) fn device(&self) -> &[u8] {
        &self.device
    }

    /// Records that bytes were written through the file: they are dirty again, whatever they were.
    pub(super) fn note_write(&mut self, offset: usize, bytes: usize) {
        let end = offset + bytes;
        self.stale.retain(|sector, _| {
            let begin = sector * SECTOR_BYTES;
            end <= begin || begin + SECTOR_BYTES <= offset
        });
    }

    /// Writes the processes' content to the device.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let cached = self.cached()?;
        for sector in self.dirty(&cached) {
            self.put(sector, &cached);
        }
        self.device.resize(cached.len(), 0);
        Ok(())
    }

    /// A failing sync: a part reaches the device, and the rest never does unless it is written
    /// again.
    pub(super) fn fail_sync(&mut self, random: &mut Rng) -> io::Result<()> {
        let cached = self.cached()?;
        let survival = SectorSurvival(random.u16(0..=256));
        for sector in self.dirty(&cached) {
            if survival.draw(random) {
                self.put(sector, &cached);
            } else {
                self.stale.insert(sector, xxh3_64(sector_of(&cached, sector)));
            }
        }
        Ok(())
    }

    /// The kernel writes some of it to the device by itself.
    pub(super) fn write_back(&mut self, survival: SectorSurvival, random: &mut Rng) -> io::Result<()> {
        let cached = self.cached()?;
        for sector in self.dirty(&cached) {
            if survival.draw(random) {
                self.put(sector, &cached);
            }
        }
        Ok(())
    }

    /// Power loss: the device's content remains, and the part of the rest that still reached it.
    pub(super) fn lose_power(&mut self, survival: SectorSurvival, random: &mut Rng) -> io::Result<()> {
        let cached = self.cached()?;
        self.write_back(survival, random)?;
        // The new length may or may not survive, independent of the content.
        if survival.draw(random) {
            self.device.resize(cached.len(), 0);
        }
        self.stale.clear();
        self.cache = memory(&self.device)?;
        Ok(())
    }

    /// Gives processes a copy of the content: a store through an old mapping changes nothing any
    /// more.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        self.cache = memory(&self.cached()?)?;
        Ok(())
    }

    /// Replaces the content for every process, also through mappings.
    pub(super) fn overwrite(&self, bytes: &[u8]) -> io::Result<()> {
        if self.cached()? == bytes {
            return Ok(());
        }
        self.cache.set_len(bytes.len() as u64)?;
        self.cache.write_all_at(bytes, 0)
    }

    /// Replaces the content for every process and on the device. The length stays.
    pub(super) fn rot(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.cache.write_all_at(bytes, 0)?;
        self.device = bytes.to_vec();
        self.stale.clear();
        Ok(())
    }

    /// Replaces the content for processes.
    pub(super) fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.cache = memory(bytes)?;
        Ok(())
    }

    /// The sectors that differ from the device and that a sync would write.
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

/// A sector's bytes; the last one of a file may be short, and one beyond the end is empty.
fn sector_of(bytes: &[u8], sector: usize) -> &[u8] {
    let begin = (sector * SECTOR_BYTES).min(bytes.len());
    &bytes[begin..(begin + SECTOR_BYTES).min(bytes.len())]
}

fn memory(bytes: &[u8]) -> io::Result<Arc<File>> {
    let file = File::from(rustix::fs::memfd_create("quire-sim", MemfdFlags::CLOEXEC)?);
    file.write_all_at(bytes, 0)?;
    Ok(Arc::new(file))
}
