use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::tests::{FOREIGN, Scratch, foreign_owner};
use super::*;

fn spec(memory_limit: Option<&str>) -> PodSpec {
    let limits = memory_limit
        .map(|limit| BTreeMap::from([("memory".to_owned(), Quantity(limit.to_owned()))]));
    let resources = Some(ResourceRequirements { limits, ..ResourceRequirements::default() });
    let container = Container { resources, ..Container::default() };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}

#[test]
fn memory_is_bounded_by_the_least_of_all_limits() {
    let cases = [
        (None, None, 8 << 30, 512 << 20),
        (None, None, 256 << 20, 256 << 20),
        (Some("1Gi"), None, 8 << 30, 1 << 30),
        (None, Some("64Mi"), 8 << 30, 64 << 20),
        (Some("1Gi"), Some("64Mi"), 8 << 30, 64 << 20),
        (Some("32Mi"), Some("64Mi"), 8 << 30, 32 << 20),
        (Some("0"), Some("64Mi"), 8 << 30, 64 << 20),
        (Some("1Ti"), None, 8 << 30, 8 << 30),
    ];
    for (size, limit, allocatable, expected) in cases {
        let source = EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: size.map(|size| Quantity(size.to_owned())),
        };
        let allocatable = Requests { memory: allocatable, ..Requests::default() };
        let got = medium(&source, &spec(limit), &allocatable);
        assert_eq!(got, Ok(Medium::Memory { bytes: expected }), "{size:?} {limit:?}");
    }
}

#[test]
fn other_media_are_refused() {
    let of =
        |medium: &str| EmptyDirVolumeSource { medium: Some(medium.to_owned()), size_limit: None };
    let allocatable = Requests::default();
    assert_eq!(medium(&of(""), &spec(None), &allocatable), Ok(Medium::Disk));
    let refused = medium(&of("HugePages"), &spec(None), &allocatable).unwrap_err().to_string();
    assert_eq!(
        refused,
        "medium \"HugePages\" is not supported here: leave it out, or write Memory"
    );
}

#[test]
fn a_folder_is_made_once_and_given_to_the_pod() {
    let scratch = Scratch::new("empty");
    let parent = open_folder(fs::CWD, scratch.text()).unwrap();
    let owner = foreign_owner();
    make(parent.as_fd(), "data", owner).unwrap();
    let path = scratch.path().join("data");
    let made = path.metadata().unwrap();
    assert_eq!(made.mode() & 0o7777, 0o777);
    if owner.is_some() {
        assert_eq!((made.uid(), made.gid()), (FOREIGN, FOREIGN));
    }
    // What the Pod does to it is the Pod's business.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(path.join("file"), "kept").unwrap();
    make(parent.as_fd(), "data", owner).unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
    assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "kept");
}

#[test]
fn a_half_made_folder_is_finished() {
    let Some(owner) = foreign_owner() else { return };
    let scratch = Scratch::new("empty-half");
    std::fs::create_dir(scratch.path().join("data")).unwrap();
    let parent = open_folder(fs::CWD, scratch.text()).unwrap();
    make(parent.as_fd(), "data", Some(owner)).unwrap();
    let made = scratch.path().join("data").metadata().unwrap();
    assert_eq!((made.uid(), made.mode() & 0o7777), (FOREIGN, 0o777));
}

#[test]
fn a_link_is_not_followed() {
    let scratch = Scratch::new("empty-link");
    let outside = scratch.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, scratch.path().join("data")).unwrap();
    let before = outside.metadata().unwrap();
    let parent = open_folder(fs::CWD, scratch.text()).unwrap();
    make(parent.as_fd(), "data", foreign_owner()).unwrap_err();
    let after = outside.metadata().unwrap();
    assert_eq!((after.uid(), after.mode()), (before.uid(), before.mode()));
}
