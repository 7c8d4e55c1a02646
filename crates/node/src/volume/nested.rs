//! Mount points inside volumes: where one volume is mounted below another.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;

/// Mount points made in one volume. A Pod has as many as it has mounts; this many make sense.
const MAX_MOUNT_POINTS: usize = 256;

/// The folders that volume `name` needs because something else is mounted on them in some
/// container: relative, clean paths, and of two below each other only the upper one. Such a volume
/// is read-only when it is mounted, so they have to be there before.
pub(super) fn mount_points(spec: &PodSpec, name: &str) -> BTreeSet<String> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut found = BTreeSet::new();
    for container in containers {
        let mounts: Vec<(&str, Vec<&str>)> = container
            .volume_mounts
            .iter()
            .flatten()
            .filter_map(|mount| Some((mount.name.as_str(), parts(&mount.mount_path)?)))
            .collect();
        let own = mounts.iter().filter(|(of, _)| *of == name).map(|(_, at)| at);
        for own in own {
            found.extend(mounts.iter().filter_map(|(_, at)| {
                let below = at.strip_prefix(own.as_slice())?;
                let reserved = below.first()?.starts_with("..");
                (!reserved).then(|| below.join("/"))
            }));
        }
    }
    let all = found.clone();
    found.retain(|path| {
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        !above.into_iter().any(|above| all.contains(above))
    });
    found.into_iter().take(MAX_MOUNT_POINTS).collect()
}

/// The parts of a mount path; none if it leads upwards.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (!parts.contains(&"..") && !path.contains('\0')).then_some(parts)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, VolumeMount};

    use super::*;

    #[test]
    fn folders_are_made_for_what_is_mounted_inside() {
        type Mounts<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Mounts<'_>, &[&str])] = &[
            (&[("own", "/a")], &[]),
            (&[("own", "/a"), ("other", "/b")], &[]),
            (&[("own", "/a"), ("other", "/ab")], &[]),
            (&[("own", "/a"), ("other", "/a/b")], &["b"]),
            (&[("own", "/a/"), ("other", "//a/./b/")], &["b"]),
            (&[("own", "/a"), ("other", "/a/b/c")], &["b/c"]),
            (&[("own", "/a"), ("other", "/a/b"), ("third", "/a/b/c")], &["b"]),
            (&[("own", "/a"), ("other", "/a/b"), ("third", "/a/b-c")], &["b", "b-c"]),
            (&[("own", "/a"), ("other", "/a/../etc")], &[]),
            (&[("own", "/a"), ("other", "/a/..data/x")], &[]),
            (&[("own", "/a"), ("own", "/a/b")], &["b"]),
            (&[("own", "/"), ("other", "/b")], &["b"]),
        ];
        for (mounts, expected) in cases {
            let mounts = mounts.iter().map(|(name, path)| VolumeMount {
                name: (*name).to_owned(),
                mount_path: (*path).to_owned(),
                ..VolumeMount::default()
            });
            let container =
                Container { volume_mounts: Some(mounts.collect()), ..Container::default() };
            let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
            let found: Vec<String> = mount_points(&spec, "own").into_iter().collect();
            assert_eq!(found, *expected);
        }
    }
}
