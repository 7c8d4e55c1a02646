use super::*;

/// A folder that goes away with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sojourn-uid-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn users(&self) -> Users {
        Users::new(NodeFolder::new(&self.0))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const EVERYTHING: &str = "         0          0 4294967295\n";

fn machine(map: &str, passwd: &str, subuid: &str) -> SystemUids {
    let mut known = named(passwd);
    known.extend(delegated(subuid));
    SystemUids { users: mapped(map), groups: mapped(map), known }
}

#[test]
fn users_are_mapped_and_unknown() {
    let assigned = AssignedUids {
        users: BTreeMap::from([("a".to_owned(), 1_500_000_000), ("b".to_owned(), 40_000)]),
        lost: BTreeSet::from([1_500_000_001]),
    };
    let none = AssignedUids::default();
    let passwd = "root:x:0:0:root:/root:/bin/bash\nx:x:40001:40002::/:/bin/sh\n";
    for (why, machine, assigned, expected) in [
        ("everything is free", machine(EVERYTHING, "", ""), &none, Some(1_500_000_000)),
        ("some are given or lost", machine(EVERYTHING, "", ""), &assigned, Some(1_500_000_002)),
        ("only small ids exist", machine("0 100000 65536", "", ""), &none, Some(40_000)),
        ("only small ids exist", machine("0 100000 65536", "", ""), &assigned, Some(40_001)),
        ("a user and its group", machine("0 0 65536", passwd, ""), &assigned, Some(40_003)),
        (
            "somebody may make them its own",
            machine(EVERYTHING, "", "alice:1500000000:65536\n"),
            &none,
            Some(1_500_065_536),
        ),
        ("hardly any id exists", machine("0 1000 1", "", ""), &none, None),
        ("nonsense", machine("what is this", "::::", "::"), &none, None),
    ] {
        assert_eq!(machine.free(assigned), expected, "{why}");
    }
}

#[test]
fn a_user_stays_with_its_namespace() {
    let scratch = Scratch::new("stays");
    let users = scratch.users();
    let (one, two) = (users.of("one").unwrap(), users.of("two").unwrap());
    assert_ne!(one, two);
    assert_eq!(users.of("one").unwrap(), one);
    // The next node reads them.
    let users = scratch.users();
    assert_eq!((users.of("two").unwrap(), users.of("one").unwrap()), (two, one));
    assert_ne!(users.of("three").unwrap(), one);
    let path = NodeFolder::new(&scratch.0).uids();
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_damaged_file_is_not_repaired() {
    for (text, why) in [
        ("", "EOF while parsing"),
        ("{\"users\":{\"a\":1500000000", "EOF while parsing"),
        ("[]", "invalid length"),
        ("{\"users\":{\"a\":0}}", "is the system's"),
        ("{\"users\":{\"a\":1500000000,\"b\":1500000000}}", "two namespaces have the user"),
        ("{\"users\":{\"a\":-1}}", "invalid value"),
        ("{\"users\":{},\"more\":1}", "unknown field"),
    ] {
        let scratch = Scratch::new("damaged");
        let path = NodeFolder::new(&scratch.0).uids();
        fs::write(&path, text).unwrap();
        let error = scratch.users().of("a").unwrap_err().to_string();
        assert!(error.contains("is damaged") && error.contains(why), "{text}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn owners_of_what_is_left_are_given_to_nobody() {
    if !rustix::process::geteuid().is_root() {
        return crate::skip::left_to_another_run("only root can give files to others");
    }
    let scratch = Scratch::new("owners");
    let folder = NodeFolder::new(&scratch.0);
    let first = scratch.users().any().unwrap();
    let claim = folder.claims().join("a");
    let home = folder.pod("b").home();
    for (path, owner) in [(&claim, first), (&home, first + 1)] {
        fs::create_dir_all(path).unwrap();
        std::os::unix::fs::chown(path, Some(owner), Some(owner)).unwrap();
    }
    assert_eq!(scratch.users().of("new").unwrap(), first + 2);
    // And so it stays, although the file is there now.
    assert_eq!(scratch.users().of("newer").unwrap(), first + 3);
}

#[test]
fn what_cannot_be_kept_is_not_given() {
    let scratch = Scratch::new("unwritable");
    let users = Users::new(NodeFolder::new(scratch.0.join("missing")));
    assert!(matches!(users.of("a"), Err(UidError::Write { .. })));
    fs::create_dir_all(scratch.0.join("missing")).unwrap();
    assert!(users.of("a").is_ok());
}
