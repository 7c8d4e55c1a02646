//! Where decoding is in a body, printed in the two ways in which upstream prints it.

use std::fmt::Write as _;

/// A chain of borrowed steps: nothing is allocated until an error is worded.
#[derive(Clone, Copy, Debug)]
pub(super) enum DecodePath<'a> {
    /// The body, or a part of it that stands at the given path of a larger one.
    Root {
        prefix: &'a str,
    },
    Field {
        parent: &'a Self,
        /// The Go struct that has the field, and the embedded structs on the way to it.
        owner: &'static str,
        via: &'a [&'static str],
        name: &'static str,
    },
    Key {
        parent: &'a Self,
        key: &'a str,
    },
    Index {
        parent: &'a Self,
        index: usize,
    },
    /// The value of a type that decodes itself: Go forgets the structs within it, not the path.
    Inner {
        parent: &'a Self,
    },
}

impl<'a> DecodePath<'a> {
    fn parent(&self) -> Option<&'a Self> {
        match self {
            Self::Root { .. } => None,
            Self::Field { parent, .. }
            | Self::Key { parent, .. }
            | Self::Index { parent, .. }
            | Self::Inner { parent } => Some(parent),
        }
    }

    /// The path of a member of this value as strict decoding prints it: `spec.ports[0].name`.
    pub(super) fn member(&self, name: &str) -> String {
        let mut text = String::new();
        self.write_strict(&mut text);
        push_member(&mut text, name);
        text
    }

    fn write_strict(&self, text: &mut String) {
        if let Some(parent) = self.parent() {
            parent.write_strict(text);
        }
        match self {
            Self::Root { prefix } => text.push_str(prefix),
            Self::Field { name, .. } => push_member(text, name),
            Self::Key { key, .. } => push_member(text, key),
            Self::Index { index, .. } => {
                // Writing to a string cannot fail.
                let _ = write!(text, "[{index}]");
            }
            Self::Inner { .. } => {}
        }
    }

    /// The nearest field as a type error of Go names it, `ContainerPort.spec.containers.ports.name`:
    /// struct fields only, embedded structs among them. Nothing above all fields.
    pub(super) fn go_field(&self) -> Option<String> {
        let owner = self.owner()?;
        let mut text = owner.to_owned();
        self.write_go(&mut text);
        Some(text)
    }

    fn owner(&self) -> Option<&'static str> {
        let mut nearest = None;
        let mut path = Some(self);
        while let Some(here) = path {
            match here {
                Self::Field { owner, .. } => nearest = nearest.or(Some(*owner)),
                Self::Inner { .. } => nearest = None,
                _ => {}
            }
            path = here.parent();
        }
        nearest
    }

    fn write_go(&self, text: &mut String) {
        if let Some(parent) = self.parent() {
            parent.write_go(text);
        }
        if let Self::Field { via, name, .. } = self {
            for step in via.iter().chain([name]) {
                text.push('.');
                text.push_str(step);
            }
        }
    }
}

fn push_member(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_printing() {
        let root = DecodePath::Root { prefix: "" };
        assert_eq!(root.member("spec"), "spec");
        assert_eq!(root.go_field(), None);
        let spec = DecodePath::Field { parent: &root, owner: "Pod", via: &[], name: "spec" };
        let volumes =
            DecodePath::Field { parent: &spec, owner: "PodSpec", via: &[], name: "volumes" };
        let first = DecodePath::Index { parent: &volumes, index: 0 };
        assert_eq!(first.member("foo"), "spec.volumes[0].foo");
        assert_eq!(first.go_field().as_deref(), Some("PodSpec.spec.volumes"));
        let source = DecodePath::Field {
            parent: &first,
            owner: "Volume",
            via: &["VolumeSource"],
            name: "emptyDir",
        };
        assert_eq!(source.member("foo"), "spec.volumes[0].emptyDir.foo");
        assert_eq!(source.go_field().as_deref(), Some("Volume.spec.volumes.VolumeSource.emptyDir"));
        let key = DecodePath::Key { parent: &source, key: "a/b" };
        assert_eq!(key.member("c"), "spec.volumes[0].emptyDir.a/b.c");
        let inner = DecodePath::Inner { parent: &source };
        let within = DecodePath::Field { parent: &inner, owner: "Other", via: &[], name: "x" };
        assert_eq!(
            within.go_field().as_deref(),
            Some("Volume.spec.volumes.VolumeSource.emptyDir.x")
        );
        let embedded = DecodePath::Root { prefix: "spec.template.metadata" };
        assert_eq!(embedded.member("foo"), "spec.template.metadata.foo");
    }
}
