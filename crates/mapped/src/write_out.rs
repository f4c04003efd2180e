//! Writes part of a file to the disk without making it durable.

use std::fs::File;
use std::io;

/// Makes the system write dirty bytes of a file to the disk, and returns when it has. This makes
/// nothing durable: it flushes neither the disk's cache nor the file's metadata. So it does not
/// delay a concurrent sync, nor a sync it. Where the system does not support this, nothing happens.
///
/// # Errors
/// The system's errors. An error may be reported only here: a later sync through the same file need
/// not report it again.
pub fn write_out(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let range = |number: u64| i64::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let (offset, bytes) = (range(offset)?, range(bytes)?);
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the call accesses no memory, and the descriptor is that of a file which is open
        // for as long as it is borrowed.
        if unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) } != 0 {
            let error = io::Error::last_os_error();
            // A sandbox that does not know the call returns the third error. None of these errors
            // comes from a disk.
            let cannot = [libc::ENOSYS, libc::EOPNOTSUPP, libc::EPERM, libc::EINVAL, libc::EINTR].map(Some);
            let cannot = cannot.contains(&error.raw_os_error());
            return if cannot { Ok(()) } else { Err(error) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn written_out_bytes_are_still_readable() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        write_out(&file, 4096, 5904).unwrap();
        write_out(&file, 1 << 20, 4096).unwrap();
        let mut read = [0; 10_000];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!((read, file.metadata().unwrap().len()), ([7; 10_000], 10_000));
        assert_eq!(write_out(&file, u64::MAX, 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_of_the_system_is_reported() {
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        assert_eq!(write_out(&pipe, 0, 1).unwrap_err().raw_os_error(), Some(libc::ESPIPE));
    }
}
