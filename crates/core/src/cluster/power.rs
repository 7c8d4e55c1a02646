//! What a cluster is shown to be: its two conditions, and the power state that follows from them.

/// What the spec asks for. An empty field asks for `Running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Wanted {
    #[default]
    Running,
    Hibernating,
}

impl Wanted {
    pub const ALL: [Self; 2] = [Self::Running, Self::Hibernating];

    /// As `spec.powerState` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Hibernating => "Hibernating",
        }
    }

    /// Which way leads there.
    pub const fn direction(self) -> Direction {
        match self {
            Self::Running => Direction::Resume,
            Self::Hibernating => Direction::Hibernate,
        }
    }

    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Running => Self::Hibernating,
            Self::Hibernating => Self::Running,
        }
    }
}

/// Which way an operation takes a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Hibernate,
    Resume,
}

impl Direction {
    pub const ALL: [Self; 2] = [Self::Hibernate, Self::Resume];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hibernate => "Hibernate",
            Self::Resume => "Resume",
        }
    }

    /// Where it leads.
    pub const fn wanted(self) -> Wanted {
        match self {
            Self::Hibernate => Wanted::Hibernating,
            Self::Resume => Wanted::Running,
        }
    }
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The reasons of the condition `Hibernating`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HibernatingReason {
    Initialized,
    PowerStatePaused,
    ClusterDeploymentDeleted,
    Unsupported,
    ResumingOrRunning,
    SyncSetsNotApplied,
    /// A mark of one decision: the gate has opened.
    SyncSetsApplied,
    Stopping,
    WaitingForMachinesToStop,
    FailedToStop,
    Hibernating,
}

impl HibernatingReason {
    pub const ALL: [Self; 11] = [
        Self::Initialized,
        Self::PowerStatePaused,
        Self::ClusterDeploymentDeleted,
        Self::Unsupported,
        Self::ResumingOrRunning,
        Self::SyncSetsNotApplied,
        Self::SyncSetsApplied,
        Self::Stopping,
        Self::WaitingForMachinesToStop,
        Self::FailedToStop,
        Self::Hibernating,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialized => "Initialized",
            Self::PowerStatePaused => "PowerStatePaused",
            Self::ClusterDeploymentDeleted => "ClusterDeploymentDeleted",
            Self::Unsupported => "Unsupported",
            Self::ResumingOrRunning => "ResumingOrRunning",
            Self::SyncSetsNotApplied => "SyncSetsNotApplied",
            Self::SyncSetsApplied => "SyncSetsApplied",
            Self::Stopping => "Stopping",
            Self::WaitingForMachinesToStop => "WaitingForMachinesToStop",
            Self::FailedToStop => "FailedToStop",
            Self::Hibernating => "Hibernating",
        }
    }

    pub const fn status(self) -> ConditionStatus {
        match self {
            Self::Initialized | Self::PowerStatePaused | Self::ClusterDeploymentDeleted => {
                ConditionStatus::Unknown
            }
            Self::Unsupported
            | Self::ResumingOrRunning
            | Self::SyncSetsNotApplied
            | Self::SyncSetsApplied
            | Self::Stopping
            | Self::WaitingForMachinesToStop
            | Self::FailedToStop => ConditionStatus::False,
            Self::Hibernating => ConditionStatus::True,
        }
    }
}

/// The reasons of the condition `Ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadyReason {
    Initialized,
    PowerStatePaused,
    ClusterDeploymentDeleted,
    StoppingOrHibernating,
    StartingMachines,
    FailedToStartMachines,
    WaitingForMachines,
    WaitingForNodes,
    PausingForClusterOperatorsToSettle,
    WaitingForClusterOperators,
    Running,
}

impl ReadyReason {
    pub const ALL: [Self; 11] = [
        Self::Initialized,
        Self::PowerStatePaused,
        Self::ClusterDeploymentDeleted,
        Self::StoppingOrHibernating,
        Self::StartingMachines,
        Self::FailedToStartMachines,
        Self::WaitingForMachines,
        Self::WaitingForNodes,
        Self::PausingForClusterOperatorsToSettle,
        Self::WaitingForClusterOperators,
        Self::Running,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialized => "Initialized",
            Self::PowerStatePaused => "PowerStatePaused",
            Self::ClusterDeploymentDeleted => "ClusterDeploymentDeleted",
            Self::StoppingOrHibernating => "StoppingOrHibernating",
            Self::StartingMachines => "StartingMachines",
            Self::FailedToStartMachines => "FailedToStartMachines",
            Self::WaitingForMachines => "WaitingForMachines",
            Self::WaitingForNodes => "WaitingForNodes",
            Self::PausingForClusterOperatorsToSettle => "PausingForClusterOperatorsToSettle",
            Self::WaitingForClusterOperators => "WaitingForClusterOperators",
            Self::Running => "Running",
        }
    }

    pub const fn status(self) -> ConditionStatus {
        match self {
            Self::Initialized | Self::PowerStatePaused | Self::ClusterDeploymentDeleted => {
                ConditionStatus::Unknown
            }
            Self::StoppingOrHibernating
            | Self::StartingMachines
            | Self::FailedToStartMachines
            | Self::WaitingForMachines
            | Self::WaitingForNodes
            | Self::PausingForClusterOperatorsToSettle
            | Self::WaitingForClusterOperators => ConditionStatus::False,
            Self::Running => ConditionStatus::True,
        }
    }
}

/// What `status.powerState` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PowerState {
    Running,
    Hibernating,
    SyncSetsNotApplied,
    Stopping,
    FailedToStop,
    WaitingForMachinesToStop,
    StartingMachines,
    FailedToStartMachines,
    WaitingForMachines,
    WaitingForNodes,
    PausingForClusterOperatorsToSettle,
    WaitingForClusterOperators,
    Unknown,
}

impl PowerState {
    pub const ALL: [Self; 13] = [
        Self::Running,
        Self::Hibernating,
        Self::SyncSetsNotApplied,
        Self::Stopping,
        Self::FailedToStop,
        Self::WaitingForMachinesToStop,
        Self::StartingMachines,
        Self::FailedToStartMachines,
        Self::WaitingForMachines,
        Self::WaitingForNodes,
        Self::PausingForClusterOperatorsToSettle,
        Self::WaitingForClusterOperators,
        Self::Unknown,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Hibernating => "Hibernating",
            Self::SyncSetsNotApplied => "SyncSetsNotApplied",
            Self::Stopping => "Stopping",
            Self::FailedToStop => "FailedToStop",
            Self::WaitingForMachinesToStop => "WaitingForMachinesToStop",
            Self::StartingMachines => "StartingMachines",
            Self::FailedToStartMachines => "FailedToStartMachines",
            Self::WaitingForMachines => "WaitingForMachines",
            Self::WaitingForNodes => "WaitingForNodes",
            Self::PausingForClusterOperatorsToSettle => "PausingForClusterOperatorsToSettle",
            Self::WaitingForClusterOperators => "WaitingForClusterOperators",
            Self::Unknown => "Unknown",
        }
    }
}

/// The two conditions, which are always written together: at most one of them is True.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions {
    pub hibernating: HibernatingReason,
    pub ready: ReadyReason,
}

impl Conditions {
    pub const INITIALIZED: Self =
        Self { hibernating: HibernatingReason::Initialized, ready: ReadyReason::Initialized };
    pub const PAUSED: Self = Self {
        hibernating: HibernatingReason::PowerStatePaused,
        ready: ReadyReason::PowerStatePaused,
    };
    pub const DELETED: Self = Self {
        hibernating: HibernatingReason::ClusterDeploymentDeleted,
        ready: ReadyReason::ClusterDeploymentDeleted,
    };
    /// Nobody can stop its machines, so it is taken for running.
    pub const UNSUPPORTED: Self =
        Self { hibernating: HibernatingReason::Unsupported, ready: ReadyReason::Running };
    pub const RUNNING: Self = Self::resuming(ReadyReason::Running);
    pub const HIBERNATING: Self = Self::stopping(HibernatingReason::Hibernating);

    /// On the way up, or there.
    pub const fn resuming(ready: ReadyReason) -> Self {
        Self { hibernating: HibernatingReason::ResumingOrRunning, ready }
    }

    /// On the way down, or there.
    pub const fn stopping(hibernating: HibernatingReason) -> Self {
        Self { hibernating, ready: ReadyReason::StoppingOrHibernating }
    }

    pub const fn power_state(self) -> PowerState {
        match self.hibernating {
            HibernatingReason::Initialized
            | HibernatingReason::PowerStatePaused
            | HibernatingReason::ClusterDeploymentDeleted => PowerState::Unknown,
            HibernatingReason::Unsupported => PowerState::Running,
            HibernatingReason::SyncSetsNotApplied => PowerState::SyncSetsNotApplied,
            HibernatingReason::Stopping => PowerState::Stopping,
            HibernatingReason::WaitingForMachinesToStop => PowerState::WaitingForMachinesToStop,
            HibernatingReason::FailedToStop => PowerState::FailedToStop,
            HibernatingReason::Hibernating => PowerState::Hibernating,
            HibernatingReason::ResumingOrRunning | HibernatingReason::SyncSetsApplied => {
                self.ready_state()
            }
        }
    }

    const fn ready_state(self) -> PowerState {
        match self.ready {
            ReadyReason::Initialized
            | ReadyReason::PowerStatePaused
            | ReadyReason::ClusterDeploymentDeleted
            | ReadyReason::StoppingOrHibernating => PowerState::Unknown,
            ReadyReason::StartingMachines => PowerState::StartingMachines,
            ReadyReason::FailedToStartMachines => PowerState::FailedToStartMachines,
            ReadyReason::WaitingForMachines => PowerState::WaitingForMachines,
            ReadyReason::WaitingForNodes => PowerState::WaitingForNodes,
            ReadyReason::PausingForClusterOperatorsToSettle => {
                PowerState::PausingForClusterOperatorsToSettle
            }
            ReadyReason::WaitingForClusterOperators => PowerState::WaitingForClusterOperators,
            ReadyReason::Running => PowerState::Running,
        }
    }

    /// Whether both conditions say the same of somebody else's doing: nothing is done then.
    pub const fn is_hands_off(self) -> bool {
        match self.hibernating {
            HibernatingReason::PowerStatePaused | HibernatingReason::ClusterDeploymentDeleted => {
                true
            }
            HibernatingReason::Initialized
            | HibernatingReason::Unsupported
            | HibernatingReason::ResumingOrRunning
            | HibernatingReason::SyncSetsNotApplied
            | HibernatingReason::SyncSetsApplied
            | HibernatingReason::Stopping
            | HibernatingReason::WaitingForMachinesToStop
            | HibernatingReason::FailedToStop
            | HibernatingReason::Hibernating => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_state_follows_from_the_conditions_as_the_table_says() {
        use HibernatingReason as H;
        use ReadyReason as R;
        let rows = [
            (Conditions::RUNNING, PowerState::Running),
            (Conditions::UNSUPPORTED, PowerState::Running),
            (
                Conditions { hibernating: H::SyncSetsNotApplied, ready: R::Running },
                PowerState::SyncSetsNotApplied,
            ),
            (
                Conditions { hibernating: H::SyncSetsApplied, ready: R::Running },
                PowerState::Running,
            ),
            (Conditions::stopping(H::Stopping), PowerState::Stopping),
            (Conditions::stopping(H::FailedToStop), PowerState::FailedToStop),
            (
                Conditions::stopping(H::WaitingForMachinesToStop),
                PowerState::WaitingForMachinesToStop,
            ),
            (Conditions::HIBERNATING, PowerState::Hibernating),
            (Conditions::resuming(R::StartingMachines), PowerState::StartingMachines),
            (Conditions::resuming(R::FailedToStartMachines), PowerState::FailedToStartMachines),
            (Conditions::resuming(R::WaitingForMachines), PowerState::WaitingForMachines),
            (Conditions::resuming(R::WaitingForNodes), PowerState::WaitingForNodes),
            (
                Conditions::resuming(R::PausingForClusterOperatorsToSettle),
                PowerState::PausingForClusterOperatorsToSettle,
            ),
            (
                Conditions::resuming(R::WaitingForClusterOperators),
                PowerState::WaitingForClusterOperators,
            ),
            (Conditions::PAUSED, PowerState::Unknown),
            (Conditions::DELETED, PowerState::Unknown),
            (Conditions::INITIALIZED, PowerState::Unknown),
        ];
        for (conditions, state) in rows {
            assert_eq!(conditions.power_state(), state, "{conditions:?}");
        }
    }

    #[test]
    fn paused_deleted_and_initialized_are_unknown_in_both_conditions() {
        for conditions in [Conditions::PAUSED, Conditions::DELETED, Conditions::INITIALIZED] {
            assert_eq!(conditions.hibernating.status(), ConditionStatus::Unknown);
            assert_eq!(conditions.ready.status(), ConditionStatus::Unknown);
            assert_eq!(conditions.hibernating.as_str(), conditions.ready.as_str());
        }
    }

    #[test]
    fn names_are_told_apart() {
        let hibernating = HibernatingReason::ALL.map(HibernatingReason::as_str);
        let ready = ReadyReason::ALL.map(ReadyReason::as_str);
        let power = PowerState::ALL.map(PowerState::as_str);
        for names in [&hibernating[..], &ready[..], &power[..]] {
            for (index, name) in names.iter().enumerate() {
                assert!(!names[..index].contains(name), "{name}");
            }
        }
        assert_eq!(Wanted::ALL.map(|wanted| wanted.direction().wanted()), Wanted::ALL);
        assert_eq!(Wanted::ALL.map(|wanted| wanted.opposite().opposite()), Wanted::ALL);
    }
}
