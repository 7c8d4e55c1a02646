use super::super::scene::{Scene, start};
use super::super::state::{EndReason, Ended, Submission};
use super::*;

fn entry(state: SubmissionState) -> Submission {
    Submission::new("main".to_owned(), state)
}

#[test]
fn who_comes_may_start_it_unless_it_has_ended_or_its_data_is_on_its_way() {
    let ended = Some(Ended { at: start(), reason: EndReason::Terminated });
    let held = |because| Waking::Held(because);
    let states = SubmissionState::ALL;
    let mut scene = Scene::new();
    let mut asked = |running: bool, deleting: bool, ended, state: Option<SubmissionState>| {
        scene.state.ended = ended;
        scene.state.submissions.entries = state.map(entry).into_iter().collect();
        waking(&scene.state, Wish { running, deleting })
    };
    assert_eq!(asked(false, false, None, None), Waking::Allowed);
    assert_eq!(asked(true, false, None, None), Waking::Runs);
    for running in [true, false] {
        assert_eq!(asked(running, true, None, None), held(Because::Deleting));
        assert_eq!(asked(running, false, ended, None), held(Because::Ended));
        assert_eq!(asked(running, true, ended, None), held(Because::Deleting));
    }
    for state in states {
        let under_way = matches!(state, SubmissionState::Waiting | SubmissionState::Running);
        let expected = if under_way { held(Because::Submitting) } else { Waking::Allowed };
        assert_eq!(asked(false, false, None, Some(state)), expected, "{state:?}");
        assert_eq!(asked(false, false, ended, Some(state)), held(Because::Ended), "{state:?}");
    }
}
