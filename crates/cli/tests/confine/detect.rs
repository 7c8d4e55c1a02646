//! What works here is found out by trying.

use std::path::Path;

use sojourn_node::confine::{ConfineError, Confiner, Mode};
use sojourn_node::folder::NodeFolder;
use sojourn_node::shim::protocol::Confinement;

use crate::pod::{TestFolder, is_root};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sojourn");

#[tokio::test]
async fn what_works_is_used_and_leaves_no_trace() {
    let test_folder = TestFolder::new();
    let folder = NodeFolder::new(test_folder.path());
    let confiner = Confiner::detect(Path::new(PROGRAM), &folder, false).await;
    assert_eq!(*confiner.mode(), if is_root() { Mode::Users } else { Mode::UserNamespace });
    assert_eq!(std::fs::read_dir(test_folder.path()).expect("a folder").count(), 0);
    let (one, two) = (confiner.confinement("one"), confiner.confinement("two"));
    match (one.expect("it works"), two.expect("it works")) {
        (Confinement::User { uid, gid }, Confinement::User { uid: other, .. }) => {
            assert_eq!(uid, gid);
            assert_ne!(uid, other);
        }
        (one, two) => assert_eq!([one, two], [Confinement::UserNamespace; 2]),
    }
}

#[tokio::test]
async fn what_does_not_work_is_refused_in_words() {
    let test_folder = TestFolder::new();
    let folder = NodeFolder::new(test_folder.path());
    let confiner = Confiner::detect(Path::new("/no/such/program"), &folder, false).await;
    let Mode::Refused(why) = confiner.mode() else { panic!("{:?}", confiner.mode()) };
    assert!(why.contains("/no/such/program"), "{why}");
    let refused = confiner.confinement("default");
    assert!(matches!(&refused, Err(ConfineError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn unconfined_can_be_requested() {
    let test_folder = TestFolder::new();
    let folder = NodeFolder::new(test_folder.path());
    let confiner = Confiner::detect(Path::new("/no/such/program"), &folder, true).await;
    assert_eq!(*confiner.mode(), Mode::Unconfined);
    assert!(matches!(confiner.confinement("default"), Ok(Confinement::Unconfined)));
}
