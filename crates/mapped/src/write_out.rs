//! Part of a file, to be written by the disk now.

use std::fs::File;
use std::io;

/// Has the disk write what was written to these bytes of a file, and returns when it has. Nothing is made durable by that: the disk's cache
/// and what is known of the file are left alone, and so nobody waits for those who do make something durable, nor they for this. Where the
/// system can't, nothing is done.
///
/// # Errors
/// As of the system. It may be told once: a later sync through the same file need not say it again.
pub fn write_out(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let range = |number: u64| i64::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let (offset, bytes) = (range(offset)?, range(bytes)?);
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the call takes no memory, and the descriptor is that of a file which is open for as long as it is borrowed.
        if unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) } != 0 {
            let error = io::Error::last_os_error();
            // The third is what a sandbox says that has not heard of the call. None of them is said of a disk.
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
    fn what_is_written_out_is_there_still() {
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
    fn an_error_of_the_system_is_told() {
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        assert_eq!(write_out(&pipe, 0, 1).unwrap_err().raw_os_error(), Some(libc::ESPIPE));
    }
}
