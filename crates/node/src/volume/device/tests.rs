use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

use k8s_openapi::api::core::v1::{Container, VolumeDevice, VolumeMount};

use super::super::tests::{FOREIGN, Scratch, foreign_owner};
use super::*;

fn folder(scratch: &Scratch) -> std::os::fd::OwnedFd {
    super::super::open(scratch.path()).unwrap()
}

#[test]
fn an_image_is_sparse_private_and_as_large_as_asked_for() {
    let scratch = Scratch::new("device-make");
    let folder = folder(&scratch);
    make(folder.as_fd(), 5 << 30, foreign_owner()).unwrap();
    let image = scratch.path().join(IMAGE);
    let about = image.metadata().unwrap();
    assert_eq!(about.len(), 5 << 30);
    assert!(about.blocks() * 512 < 1 << 20, "it takes {} blocks", about.blocks());
    assert_eq!(about.mode() & 0o7777, 0o600);
    if foreign_owner().is_some() {
        assert_eq!((about.uid(), about.gid()), (FOREIGN, FOREIGN));
    }
}

#[test]
fn an_image_grows_and_never_shrinks() {
    let scratch = Scratch::new("device-grow");
    let folder = folder(&scratch);
    let image = scratch.path().join(IMAGE);
    make(folder.as_fd(), 10, None).unwrap();
    std::fs::write(&image, "0123456789").unwrap();
    for (asked, length) in [(10, 10), (4, 10), (16, 16), (0, 16)] {
        make(folder.as_fd(), asked, None).unwrap();
        assert_eq!(image.metadata().unwrap().len(), length, "asked for {asked}");
    }
    assert_eq!(std::fs::read(&image).unwrap(), b"0123456789\0\0\0\0\0\0");
}

#[test]
fn what_stands_in_its_place_is_left_alone() {
    let scratch = Scratch::new("device-link");
    let outside = scratch.path().join("outside");
    std::fs::write(&outside, "secret").unwrap();
    let before = outside.metadata().unwrap();
    let image = scratch.path().join(IMAGE);
    let folder = folder(&scratch);

    symlink(&outside, &image).unwrap();
    let refused = make(folder.as_fd(), 100, foreign_owner()).unwrap_err();
    assert_eq!(refused.to_string(), "its image is a link");
    std::fs::remove_file(&image).unwrap();
    symlink(scratch.path().join("nowhere"), &image).unwrap();
    make(folder.as_fd(), 100, foreign_owner()).unwrap_err();
    assert!(!scratch.path().join("nowhere").exists());
    std::fs::remove_file(&image).unwrap();

    rustix::fs::mknodat(&folder, IMAGE, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let refused = make(folder.as_fd(), 100, foreign_owner()).unwrap_err();
    assert_eq!(refused.to_string(), "its image is not a file");
    assert!(image.symlink_metadata().unwrap().file_type().is_fifo());
    let after = outside.metadata().unwrap();
    assert_eq!((after.len(), after.uid(), after.mode()), (6, before.uid(), before.mode()));
}

#[test]
fn how_a_volume_is_used_is_read_from_every_container() {
    let mount = |name: &str| VolumeMount { name: name.to_owned(), ..VolumeMount::default() };
    let device = |name: &str| VolumeDevice { name: name.to_owned(), ..VolumeDevice::default() };
    let spec = PodSpec {
        init_containers: Some(vec![Container {
            volume_devices: Some(vec![device("disk"), device("both")]),
            ..Container::default()
        }]),
        containers: vec![Container {
            volume_mounts: Some(vec![mount("files"), mount("both")]),
            ..Container::default()
        }],
        ..PodSpec::default()
    };
    for (name, mounted, device) in [
        ("disk", false, true),
        ("files", true, false),
        ("both", true, true),
        ("neither", false, false),
    ] {
        assert_eq!(VolumeUses::of(&spec, name), VolumeUses { mounted, device }, "{name}");
    }
}
