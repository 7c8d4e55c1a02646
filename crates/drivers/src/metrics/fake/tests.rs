use tokio::time::Instant;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn window(start: i64, end: i64) -> Window {
    Window { start: at(start), end: at(end), step: SignedDuration::from_secs(10) }
}

fn labels(name: &str) -> Labels {
    [("name", name)].into_iter().collect()
}

fn values(answer: &Answer) -> Vec<Vec<(i64, f64)>> {
    let series = answer.series.iter();
    series.map(|s| s.samples.iter().map(|&(at, v)| (at.as_second(), v)).collect()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_series_holds_its_value_until_it_is_told_another() {
    let fake = Fake::default();
    fake.set("q", &labels("a"), at(15), 1.0);
    fake.set("q", &labels("a"), at(30), 2.0);
    fake.end("q", &labels("a"), at(45));
    fake.set("q", &labels("b"), at(40), 7.0);
    let answer = fake.range("q", window(0, 50)).await.unwrap();
    assert_eq!(
        values(&answer),
        [vec![(20, 1.0), (30, 2.0), (40, 2.0)], vec![(40, 7.0), (50, 7.0)]]
    );
    let now = fake.instant("q", at(44)).await.unwrap();
    assert_eq!(values(&now), [[(44, 2.0)], [(44, 7.0)]]);
    assert_eq!(values(&fake.range("other", window(0, 50)).await.unwrap()), [] as [Vec<_>; 0]);
    assert_eq!((fake.times_asked(), fake.asked().len()), (3, 3));
    assert_eq!(fake.asked()[0], Asked { query: "q".to_owned(), window: window(0, 50) });
}

#[tokio::test(start_paused = true)]
async fn faults_are_those_of_the_script() {
    let fake = Fake::default();
    fake.set("q", &labels("a"), at(0), 1.0);
    let error = QueryError::TimedOut { server: "fake".to_owned(), seconds: 1 };
    let failing = error.clone();
    fake.script(move |asked| match asked.window.start.as_second() {
        0 => vec![Fault::Slow(Duration::from_secs(7)), Fault::Fail(failing.clone())],
        10 => vec![Fault::Partial("half".to_owned())],
        20 => vec![Fault::Instead(Answer::default())],
        _ => Vec::new(),
    });
    let started = Instant::now();
    assert_eq!(fake.range("q", window(0, 10)).await, Err(error));
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    let partial = fake.range("q", window(10, 10)).await.unwrap();
    assert_eq!(
        (values(&partial), partial.warnings),
        (vec![vec![(10, 1.0)]], vec!["half".to_owned()])
    );
    assert_eq!(fake.range("q", window(20, 20)).await, Ok(Answer::default()));
    fake.heal();
    assert_eq!(values(&fake.range("q", window(20, 20)).await.unwrap()), [[(20, 1.0)]]);
}

#[test]
fn the_points_of_a_window_are_bounded_whatever_its_step() {
    let points = |w: Window| w.points().map(Timestamp::as_second).collect::<Vec<_>>();
    assert_eq!(points(window(0, 25)), [0, 10, 20]);
    assert_eq!(points(window(20, 10)), [] as [i64; 0]);
    for step in [SignedDuration::ZERO, SignedDuration::from_secs(-1), SignedDuration::MAX] {
        assert_eq!(points(Window { start: at(5), end: at(9), step }), [5]);
    }
}
