//! Whose series it is.

use super::*;

// case: lab A14
#[tokio::test(start_paused = true)]
async fn traffic_of_one_object_is_not_that_of_another_with_a_longer_name() {
    let mut test = CollectorTest::new();
    test.tick(0).await;
    test.fake.set("web", &service("vm-10"), at(10), 1.0);
    test.fake.set("web", &service("other"), at(10), 1.0);
    test.fake.set("web", &labels(&[("exported_service", "vm-1")]), at(10), 1.0);
    let stats = test.tick(30).await;
    assert_eq!((test.seen("vm-1"), test.seen("vm-10").is_some()), (None, true));
    assert_eq!((stats.matched, stats.unmatched), (1, 2));
    assert!(!default_query(source::NGINX).data.contains("=~"), "the query names no object");
}

#[tokio::test(start_paused = true)]
async fn the_labels_that_name_an_object_are_data() {
    let mut options = options();
    options.polled[0].identity = Identity::service("ns", "svc");
    let fake = CollectorTest::new().fake;
    let mut test =
        CollectorTest::with(fake, options, Objects::default(), CoverageRegistry::default());
    test.tick(0).await;
    test.fake.set("web", &labels(&[("ns", "tenant"), ("svc", "vm-1")]), at(10), 1.0);
    test.fake.set("web", &service("vm-10"), at(10), 1.0);
    test.tick(30).await;
    assert_eq!((test.seen("vm-1").is_some(), test.seen("vm-10")), (true, None));
}

// case: lab A11
#[tokio::test(start_paused = true)]
async fn every_environment_of_an_object_counts_and_so_does_its_port() {
    let objects = Objects {
        addresses: [
            ("10.0.0.1", 22, "vm-1"),
            ("10.0.0.2", 22, "vm-1"),
            ("10.0.0.9", 2201, "vm-2"),
            ("10.0.0.9", 2202, "vm-3"),
            ("fd00::1", 22, "vm-4"),
        ]
        .into_iter()
        .map(|(ip, port, name)| ((ip.parse().unwrap(), port), key(name)))
        .collect(),
    };
    let test = CollectorTest::new();
    let mut test = CollectorTest::with(test.fake, options(), objects, CoverageRegistry::default());
    test.tick(0).await;
    let used = |labels: &Labels, second| test.fake.set("ssh", labels, at(second), 1.0);
    used(&address("10.0.0.1", "22"), 10);
    used(&address("10.0.0.2", "22"), 40);
    used(&address("10.0.0.9", "2202"), 10);
    used(&address("::ffff:10.0.0.1", "22"), 40);
    used(&labels(&[("destination_ip", "fd00:0:0::1")]), 10);
    used(&labels(&[("destination_ip", "10.0.0.9")]), 10);
    used(&address("10.0.0.1", "ssh"), 10);
    used(&address("vm-2", "22"), 10);
    let stats = test.tick(60).await;
    assert_eq!(
        test.seen("vm-1"),
        Some((60, source::BASTION_SSH, 3)),
        "the newest of its addresses"
    );
    assert_eq!(test.seen("vm-2"), None, "same address, another port");
    assert_eq!(test.seen("vm-3"), Some((30, source::BASTION_SSH, 1)));
    assert_eq!(test.seen("vm-4"), Some((30, source::BASTION_SSH, 1)), "nobody else is there");
    assert_eq!((stats.matched, stats.unmatched), (5, 3));
}
