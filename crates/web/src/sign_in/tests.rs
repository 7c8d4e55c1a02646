use super::*;
use crate::identity::BearerToken;

fn of(name: &str) -> Credentials {
    let identity = Identity { name: name.to_owned(), ..Identity::default() };
    Credentials { identity, token: BearerToken::new("t") }
}

fn ada() -> Credentials {
    of("ada")
}

#[tokio::test(start_paused = true)]
async fn all_links_of_one_user_end_and_nobody_elses() {
    let sign_in = SignIn::default();
    let (hers, his) = (sign_in.mint(ada()), sign_in.mint(of("bob")));
    sign_in.revoke_all(&ada().identity);
    assert_eq!(sign_in.redeem(hers.reveal()), None);
    assert_eq!(sign_in.redeem(his.reveal()), Some(of("bob")));
}

#[tokio::test(start_paused = true)]
async fn a_link_works_once_and_looking_does_not_use_it() {
    let sign_in = SignIn::default();
    let secret = sign_in.mint(ada());
    assert_eq!(sign_in.peek(secret.reveal()), Some(ada().identity));
    assert_eq!(sign_in.redeem(secret.reveal()), Some(ada()));
    assert_eq!(sign_in.redeem(secret.reveal()), None);
    assert_eq!(sign_in.peek(secret.reveal()), None);
}

#[tokio::test(start_paused = true)]
async fn a_link_ends_after_a_quarter_of_an_hour() {
    let sign_in = SignIn::default();
    let (early, late) = (sign_in.mint(ada()), sign_in.mint(ada()));
    tokio::time::advance(LINK_LIFETIME - Duration::from_secs(1)).await;
    assert_eq!(sign_in.redeem(early.reveal()), Some(ada()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(sign_in.peek(late.reveal()), None);
    assert_eq!(sign_in.redeem(late.reveal()), None);
}

#[tokio::test(start_paused = true)]
async fn too_many_links_end_the_oldest() {
    let sign_in = SignIn::default();
    let mut secrets = Vec::new();
    for _ in 0..=LINKS {
        secrets.push(sign_in.mint(ada()));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(sign_in.peek(secrets[0].reveal()), None);
    assert!(secrets[1..].iter().all(|secret| sign_in.peek(secret.reveal()).is_some()));
}

#[test]
fn of_many_at_once_one_gets_in() {
    let sign_in = SignIn::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let secret = runtime.block_on(async { sign_in.mint(ada()) });
    let barrier = std::sync::Barrier::new(8);
    let redeemed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    usize::from(sign_in.redeem(secret.reveal()).is_some())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(redeemed, 1);
}
