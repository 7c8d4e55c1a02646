//! What is to be done, complete in itself.

/// One thing to do. What is to be done to one machine comes in its order: something that fails keeps
/// what follows it from being done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Create the Machine object of a reservation, from the group's present template.
    Create { name: String },
    /// Have the provider make the machine.
    Provision { name: String },
    /// Have the provider delete it. Whatever is not there counts as deleted.
    Deprovision { name: String },
    /// Delete the Machine object; its finalizer still holds it.
    Delete { name: String },
    /// Nothing of the machine is left: let the object go.
    RemoveFinalizer { name: String },
    /// Every machine is gone: let the group go.
    RemoveGroupFinalizer,
}

impl Effect {
    /// The machine that it is done to.
    pub fn machine(&self) -> Option<&str> {
        match self {
            Self::Create { name }
            | Self::Provision { name }
            | Self::Deprovision { name }
            | Self::Delete { name }
            | Self::RemoveFinalizer { name } => Some(name),
            Self::RemoveGroupFinalizer => None,
        }
    }
}
