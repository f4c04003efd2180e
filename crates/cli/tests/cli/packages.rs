//! What packages contain besides the program: completions, man pages, the unit of systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{Server, quire, ran, run};

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/systemd/quire.service");

/// Longer than any step takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn every_shell_has_completions_with_the_commands_and_their_flags() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(&["completions", shell]).succeeded();
        for word in ["serve", "durability", "enqueue"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
        assert!(!script.contains("with-parent"), "{shell} does not offer hidden commands");
    }
}

#[test]
fn bash_accepts_its_completions_and_completes_a_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("quire");
    fs::write(&script, run(&["completions", "bash"]).succeeded()).expect("written");
    let typed = "source \"$0\"; COMP_WORDS=(quire dem); COMP_CWORD=1; _quire quire dem quire; echo \"${COMPREPLY[@]}\"";
    let Ok(output) = Command::new("bash").args(["-c", typed]).arg(&script).output() else {
        eprintln!("SKIPPED: there is no bash");
        return;
    };
    assert_eq!(ran(output).succeeded().trim(), "demo");
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("new/man1");
    run(&["man", "--out", pages.to_str().expect("UTF-8")]).succeeded();
    for page in ["quire.1", "quire-serve.1", "quire-jobs-enqueue.1"] {
        let text = fs::read_to_string(pages.join(page)).expect("a page");
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(!pages.join("quire-with-parent.1").exists(), "hidden commands have no page");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    run(&["man", "--out", file.to_str().expect("UTF-8")]).failed_with("can't write man pages to");
}

/// The states that a server reported to its service manager.
struct ServiceManager {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl ServiceManager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        ServiceManager { socket, folder }
    }

    fn start(&self) -> Server {
        let data = self.folder.path().join("data");
        let mut command = quire();
        command.arg("serve").args(["--durability", "os"]).arg("--data").arg(data);
        Server::spawn(command.env("NOTIFY_SOCKET", self.folder.path().join("notify")))
    }

    #[track_caller]
    fn next(&self) -> String {
        let mut message = [0; 4096];
        let bytes = self.socket.recv(&mut message).expect("a message");
        String::from_utf8(message[..bytes].to_vec()).expect("UTF-8")
    }
}

#[test]
fn the_service_manager_is_notified_of_start_reload_and_stop() {
    let manager = ServiceManager::new();
    let server = manager.start();
    let ready = manager.next();
    assert!(ready.starts_with("READY=1\nSTATUS=serving "), "{ready}");
    server.signal("HUP");
    let reloading = manager.next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(manager.next(), ready);
    assert_eq!(server.stop_by("TERM").0, Some(0));
    assert_eq!(manager.next(), "STOPPING=1\n");
}

#[test]
fn systemd_accepts_the_unit_and_finds_it_little_exposed() {
    // The program of the unit must exist: it is this one.
    let unit = fs::read_to_string(UNIT).expect("a unit").replace("/usr/bin/quire", env!("CARGO_BIN_EXE_quire"));
    // The user of the package does not exist here.
    let unit = unit.replace("User=quire", "User=daemon").replace("Group=quire", "Group=daemon");
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("quire.service");
    fs::write(&copy, unit).expect("written");
    let systemd = |arguments: &[&str], unit: &Path| Command::new("systemd-analyze").args(arguments).arg(unit).output();
    let Ok(verified) = systemd(&["verify", "--man=no", "--recursive-errors=no"], &copy) else {
        eprintln!("SKIPPED: there is no systemd-analyze");
        return;
    };
    let verified = ran(verified);
    assert_eq!((verified.status, verified.stderr.as_str()), (Some(0), ""), "{verified:?}");
    // The exposure is in tenths; 0 is none, 100 is a service without any limit.
    let exposed = systemd(&["security", "--offline=yes", "--threshold=20"], &copy).expect("it runs");
    ran(exposed).succeeded();
}
