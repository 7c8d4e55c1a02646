use super::super::state::{EndReason, Ended, SubmissionEntry};
use super::super::test_instance::{TestInstance, start};
use super::*;

fn entry(state: SubmissionState) -> SubmissionEntry {
    SubmissionEntry::new("main".to_owned(), state)
}

#[test]
fn who_comes_may_start_it_unless_it_has_ended_or_its_data_is_on_its_way() {
    let ended = Some(Ended { at: start(), reason: EndReason::Terminated });
    let refused = |because| Waking::Refused(because);
    let states = SubmissionState::ALL;
    let mut instance = TestInstance::new();
    let mut asked = |running: bool, deleting: bool, ended, state: Option<SubmissionState>| {
        instance.state.ended = ended;
        instance.state.submissions.entries = state.map(entry).into_iter().collect();
        waking(&instance.state, PowerIntent { running, deleting })
    };
    assert_eq!(asked(false, false, None, None), Waking::Allowed);
    assert_eq!(asked(true, false, None, None), Waking::Runs);
    for running in [true, false] {
        assert_eq!(asked(running, true, None, None), refused(WakeRefusal::Deleting));
        assert_eq!(asked(running, false, ended, None), refused(WakeRefusal::Ended));
        assert_eq!(asked(running, true, ended, None), refused(WakeRefusal::Deleting));
    }
    for state in states {
        let under_way = matches!(state, SubmissionState::Waiting | SubmissionState::Running);
        let expected = if under_way { refused(WakeRefusal::Submitting) } else { Waking::Allowed };
        assert_eq!(asked(false, false, None, Some(state)), expected, "{state:?}");
        assert_eq!(
            asked(false, false, ended, Some(state)),
            refused(WakeRefusal::Ended),
            "{state:?}"
        );
    }
}
