//! `cargo xtask ci`: everything that must hold before a change goes in, in one command.
//!
//! Steps run in order, the quick ones first, and the suites that mostly wait side by side at the end. The
//! first that fails ends the run; the table at the end shows what passed, how long it took, and what was
//! not reached.

mod lanes;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::process::{cargo, print_line, read, run as start};
use crate::{browser, families, kube_env, sim, test, test_programs, tidy, toy};

struct Step {
    name: &'static str,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    Format,
    Lint,
    /// The links in comments lead somewhere.
    Doc,
    Tidy,
    Alone,
    Test,
    /// Every family has its parts, and a test for every acceptance case.
    Families,
    /// More seeds of the simulation; the tests run a few.
    Sim,
    Browser,
    KubeEnv,
    Kube(Suite),
    /// The lab end to end, on both engines.
    Lab,
    /// Groups end to end, on both engines.
    Group,
    /// Sessions end to end, on both engines.
    Access,
    /// What adding a family costs, and the tests of the one that is added.
    Toy,
    /// That family end to end, on both engines.
    ToyWorld,
}

/// Tests of one target that need a real control plane.
#[derive(Clone, Copy)]
struct Suite {
    target: &'static str,
    /// What the names of those tests start with.
    filter: &'static str,
}

/// Suites that run side by side after all other steps: those of a line one after the other. What works all
/// the time, as the simulation does, gains nothing here and slows the others down.
const LANES: [&[&str]; 2] = [
    &["lab", "kube-kubectl"],
    &[
        "group",
        "access",
        "toy-world",
        "browser",
        "kube-conformance",
        "kube-engine",
        "kube-pods",
        "kube-agent",
    ],
];

/// What all of these steps are called together: they take long, and repeat on a larger scale, or crate by crate, what
/// the others do.
const EXTENDED: &str = "extended";
const EXTENDED_STEPS: [&str; 4] = ["alone", "sim", "toy", "toy-world"];

/// So many steps are named as the slowest.
const MAX_SLOWEST_STEPS: usize = 10;

const STEPS: [Step; 20] = [
    Step { name: "fmt", action: Action::Format },
    Step { name: "tidy", action: Action::Tidy },
    Step { name: "clippy", action: Action::Lint },
    Step { name: "doc", action: Action::Doc },
    Step { name: "alone", action: Action::Alone },
    Step { name: "test", action: Action::Test },
    Step { name: "families", action: Action::Families },
    Step { name: "kube-env", action: Action::KubeEnv },
    Step { name: "sim", action: Action::Sim },
    Step { name: "toy", action: Action::Toy },
    Step { name: "browser", action: Action::Browser },
    Step {
        name: "kube-conformance",
        action: Action::Kube(Suite { target: "conformance", filter: "real_" }),
    },
    Step {
        name: "kube-engine",
        action: Action::Kube(Suite { target: "engine", filter: "real_server" }),
    },
    Step {
        name: "kube-kubectl",
        action: Action::Kube(Suite { target: "kubectl", filter: "real_" }),
    },
    Step { name: "kube-agent", action: Action::Kube(Suite { target: "agent", filter: "real_" }) },
    Step { name: "kube-pods", action: Action::Kube(Suite { target: "pods", filter: "real_" }) },
    Step { name: "lab", action: Action::Lab },
    Step { name: "group", action: Action::Group },
    Step { name: "access", action: Action::Access },
    Step { name: "toy-world", action: Action::ToyWorld },
];

/// Runs the steps, but for those that `--skip` names, or those alone that `--only` names.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let selection = Selection::parse(arguments)?;
    let mut context = StepContext { root, assets: None };
    let rows = match selection {
        Selection::Only(names) => {
            let chosen: Vec<&Step> =
                STEPS.iter().filter(|step| names.contains(&step.name)).collect();
            perform(&chosen, &[], |action| context.perform(action))
        }
        Selection::AllBut(skipped) => {
            let in_order: Vec<&Step> = STEPS.iter().filter(|step| !is_in_lane(step)).collect();
            let mut rows = perform(&in_order, &skipped, |action| context.perform(action));
            rows.extend(context.side_by_side(&rows, &skipped)?);
            rows
        }
    };
    print_line(&summary(&rows));
    print_line(&slowest(&rows));
    match rows.iter().find(|row| matches!(row.outcome, StepOutcome::Failed(_))) {
        Some(row) => bail!("ci: `{}` failed", row.name),
        None => Ok(()),
    }
}

fn is_in_lane(step: &Step) -> bool {
    LANES.iter().any(|lane| lane.contains(&step.name))
}

/// The steps that the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Selection<'a> {
    /// `--skip test`, `--skip=test`, `--skip fmt,tidy`.
    AllBut(Vec<&'a str>),
    /// `--only lab`, in the same forms.
    Only(Vec<&'a str>),
}

impl<'a> Selection<'a> {
    fn parse(arguments: &'a [String]) -> Result<Self> {
        let (mut skipped, mut only) = (Vec::new(), Vec::new());
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let (option, value) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (argument.as_str(), None),
            };
            let names = match option {
                "--skip" => &mut skipped,
                "--only" => &mut only,
                _ => bail!(
                    "`{argument}` is not known here; usage: cargo xtask ci \
                     [--skip STEP[,STEP] | --only STEP[,STEP]]…"
                ),
            };
            let value = match value {
                Some(value) => value,
                None => arguments
                    .next()
                    .with_context(|| format!("{option} needs the name of a step"))?,
            };
            for name in value.split(',') {
                match name {
                    EXTENDED => names.extend(EXTENDED_STEPS),
                    _ => names.push(name),
                }
            }
        }
        for name in skipped.iter().chain(&only) {
            if STEPS.iter().all(|step| step.name != *name) {
                let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
                bail!("there is no step `{name}`; the steps are {}", known.join(", "));
            }
        }
        match (skipped.is_empty(), only.is_empty()) {
            (_, true) => Ok(Self::AllBut(skipped)),
            (true, false) => Ok(Self::Only(only)),
            (false, false) => bail!("--skip and --only exclude each other"),
        }
    }
}

struct Row {
    name: &'static str,
    outcome: StepOutcome,
}

enum StepOutcome {
    Passed(Duration),
    Failed(Duration),
    Skipped,
    NotRun,
}

fn perform(
    steps: &[&Step],
    skipped: &[&str],
    mut action: impl FnMut(Action) -> Result<()>,
) -> Vec<Row> {
    let mut failed = false;
    let mut rows = Vec::new();
    for step in steps {
        let outcome = if skipped.contains(&step.name) {
            StepOutcome::Skipped
        } else if failed {
            StepOutcome::NotRun
        } else {
            print_line(&format!("\n== {} ==", step.name));
            let started = Instant::now();
            match action(step.action) {
                Ok(()) => StepOutcome::Passed(started.elapsed()),
                Err(error) => {
                    failed = true;
                    print_line(&format!("{}: {error:#}", step.name));
                    StepOutcome::Failed(started.elapsed())
                }
            }
        };
        rows.push(Row { name: step.name, outcome });
    }
    rows
}

fn summary(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
    let mut table = String::new();
    for row in rows {
        let (word, took) = match row.outcome {
            StepOutcome::Passed(took) => ("passed", Some(took)),
            StepOutcome::Failed(took) => ("FAILED", Some(took)),
            StepOutcome::Skipped => ("skipped", None),
            StepOutcome::NotRun => ("not run", None),
        };
        let took = took.map(|took| format!("{:8.1} s", took.as_secs_f64())).unwrap_or_default();
        let line = format!("{:width$}  {word:7}{took}", row.name);
        let _ = write!(table, "\n{}", line.trim_end());
    }
    table
}

/// The steps that took longest.
fn slowest(rows: &[Row]) -> String {
    let mut took: Vec<(&str, Duration)> = rows
        .iter()
        .filter_map(|row| match row.outcome {
            StepOutcome::Passed(took) | StepOutcome::Failed(took) => Some((row.name, took)),
            StepOutcome::Skipped | StepOutcome::NotRun => None,
        })
        .collect();
    took.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    took.truncate(MAX_SLOWEST_STEPS);
    let names: Vec<String> =
        took.iter().map(|(name, took)| format!("{name} {:.0} s", took.as_secs_f64())).collect();
    format!("the slowest steps: {}", names.join(", "))
}

/// What the steps work on, and what earlier ones leave for later ones.
struct StepContext<'a> {
    root: &'a Path,
    /// Where the binaries of the control plane are, once known.
    assets: Option<PathBuf>,
}

impl StepContext<'_> {
    /// The suites of all lanes, unless an earlier step failed.
    fn side_by_side(&self, before: &[Row], skipped: &[&str]) -> Result<Vec<Row>> {
        let names = || LANES.into_iter().flatten().copied();
        let failed = before.iter().any(|row| matches!(row.outcome, StepOutcome::Failed(_)));
        if failed || names().all(|name| skipped.contains(&name)) {
            let outcome = |name: &str| match skipped.contains(&name) {
                true => StepOutcome::Skipped,
                false => StepOutcome::NotRun,
            };
            return Ok(names().map(|name| Row { name, outcome: outcome(name) }).collect());
        }
        let assets = self.assets()?;
        Ok(lanes::run(&LANES, skipped, |name| {
            lanes::in_process_of_its_own(self.root, &assets, name)
        }))
    }

    fn perform(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Format => start(cargo(self.root).args(["fmt", "--all", "--check"])),
            Action::Tidy => tidy::run(self.root),
            Action::Lint => self.lint(),
            Action::Doc => {
                let flags = "--deny warnings --allow rustdoc::private_intra_doc_links";
                let mut doc = cargo(self.root);
                doc.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
                start(doc.env("RUSTDOCFLAGS", flags))
            }
            Action::Alone => self.check_alone(),
            Action::Test => test::whole(self.root),
            Action::Families => families::check(self.root),
            Action::Sim => sim::share(self.root),
            Action::Browser => browser::test(self.root, &[]),
            Action::KubeEnv => {
                self.assets = Some(kube_env::ensure()?);
                Ok(())
            }
            Action::Kube(suite) => self.test_with_kube(suite),
            Action::Lab => test_programs::test_lab_with_kube(self.root, &self.assets()?),
            Action::Group => test_programs::test_group(self.root, &self.assets()?, &[]),
            Action::Access => test_programs::test_access(self.root, &self.assets()?, &[]),
            Action::Toy => toy::check(self.root),
            Action::ToyWorld => toy::test_world(self.root, &self.assets()?),
        }
    }

    /// Everything; a target that plain `cargo test` leaves out has to be named.
    fn lint(&self) -> Result<()> {
        for targets in [
            &["--all-targets"][..],
            &["--test", test_programs::LAB],
            &["--test", test_programs::GROUP],
            &["--test", test_programs::ACCESS],
            &["--test", test_programs::GAME],
            &["--test", test_programs::CLUSTER],
            &["--test", "browser"],
            &["--features", toy::FEATURES, "--lib", "--bins", "--test", toy::WORLD],
        ] {
            let mut command = cargo(self.root);
            command.args(["clippy", "--workspace"]).args(targets);
            start(command.args(["--", "--deny", "warnings"]))?;
        }
        Ok(())
    }

    /// Each crate by itself: built together, one gets the features that another asked for, which
    /// hides that it does not ask for what it uses.
    fn check_alone(&self) -> Result<()> {
        for package in tidy::packages() {
            start(cargo(self.root).args(["check", "--quiet", "--package", package]))?;
        }
        Ok(())
    }

    /// Where the binaries of the control plane are.
    fn assets(&self) -> Result<PathBuf> {
        if let Some(assets) = &self.assets {
            return Ok(assets.clone());
        }
        let set = std::env::var_os("KUBEBUILDER_ASSETS");
        let set =
            set.context("without the step kube-env, $KUBEBUILDER_ASSETS must say where they are")?;
        Ok(set.into())
    }

    fn test_with_kube(&self, suite: Suite) -> Result<()> {
        let assets = self.assets()?;
        let test = |more: &[&str]| {
            let mut command = cargo(self.root);
            // With the features of the whole workspace, so that what the tests built is used again.
            command.args(["test", "--workspace", "--test", suite.target, "--"]);
            command.arg(suite.filter).args(more);
            command.env("KUBEBUILDER_ASSETS", &assets).env("SOJOURN_REQUIRE_KUBE", "1");
            command
        };
        // A filter that matches nothing passes; a renamed test would go unnoticed.
        if !names_a_test(&read(&mut test(&["--list"]))?) {
            bail!("no test of `{}` has `{}` in its name", suite.target, suite.filter);
        }
        start(&mut test(&[]))
    }
}

/// Whether `--list` of the test harness listed any.
fn names_a_test(listed: &str) -> bool {
    listed.lines().any(|line| line.ends_with(": test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    static THREE: [Step; 3] = [
        Step { name: "fmt", action: Action::Format },
        Step { name: "tidy", action: Action::Tidy },
        Step { name: "kube-env", action: Action::KubeEnv },
    ];

    fn three() -> Vec<&'static Step> {
        THREE.iter().collect()
    }

    fn words(rows: &[Row]) -> Vec<String> {
        let table = summary(rows);
        table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn the_first_failure_ends_the_run_and_the_rest_is_listed() {
        let mut ran = 0;
        let rows = perform(&three(), &[], |action| {
            ran += 1;
            if matches!(action, Action::Tidy) { bail!("untidy") } else { Ok(()) }
        });
        assert_eq!(ran, 2);
        assert_eq!(words(&rows), ["fmt passed 0.0 s", "tidy FAILED 0.0 s", "kube-env not run"]);
    }

    #[test]
    fn skipped_steps_are_listed_as_such_and_not_run() {
        let mut ran = 0;
        let rows = perform(&three(), &["tidy"], |_| {
            ran += 1;
            Ok(())
        });
        assert_eq!(ran, 2);
        assert_eq!(words(&rows), ["fmt passed 0.0 s", "tidy skipped", "kube-env passed 0.0 s"]);
    }

    #[test]
    fn the_slowest_steps_are_named_first() {
        let passed = |name, seconds| Row {
            name,
            outcome: StepOutcome::Passed(Duration::from_secs(seconds)),
        };
        let rows = [
            passed("fmt", 2),
            Row { name: "tidy", outcome: StepOutcome::Skipped },
            passed("lab", 330),
            Row { name: "sim", outcome: StepOutcome::Failed(Duration::from_secs(9)) },
        ];
        assert_eq!(slowest(&rows), "the slowest steps: lab 330 s, sim 9 s, fmt 2 s");
    }

    #[test]
    fn the_summary_is_a_table() {
        let rows = [
            Row { name: "test", outcome: StepOutcome::Passed(Duration::from_millis(123_450)) },
            Row { name: "kube-env", outcome: StepOutcome::NotRun },
        ];
        assert_eq!(summary(&rows), "\ntest      passed    123.5 s\nkube-env  not run");
    }

    #[test]
    fn steps_are_selected_by_known_names_in_either_form() {
        let arguments = |typed: &str| typed.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(Selection::parse(&[]).expect("all"), Selection::AllBut(Vec::new()));
        let typed = arguments("--skip test,extended");
        let skipped = Selection::AllBut(vec!["test", "alone", "sim", "toy", "toy-world"]);
        assert_eq!(Selection::parse(&typed).expect("all are known"), skipped);
        let typed = arguments("--skip test --skip=fmt,tidy");
        let skipped = Selection::AllBut(vec!["test", "fmt", "tidy"]);
        assert_eq!(Selection::parse(&typed).expect("all are known"), skipped);
        let typed = arguments("--only=lab --only group");
        let only = Selection::Only(vec!["lab", "group"]);
        assert_eq!(Selection::parse(&typed).expect("all are known"), only);
        for (typed, expected) in [
            ("--skip", "--skip needs the name of a step"),
            ("--only", "--only needs the name of a step"),
            ("--skip lint", "there is no step `lint`; the steps are fmt, tidy, clippy"),
            ("--only lint", "there is no step `lint`; the steps are fmt, tidy, clippy"),
            ("--skipping", "`--skipping` is not known here"),
            ("test", "`test` is not known here"),
            ("--only lab --skip group", "--skip and --only exclude each other"),
        ] {
            let error = Selection::parse(&arguments(typed)).expect_err("refused").to_string();
            assert!(error.starts_with(expected), "{typed}: {error}");
        }
    }

    #[test]
    fn every_suite_of_a_lane_is_a_step_and_in_one_lane_alone() {
        let mut names: Vec<&str> = LANES.into_iter().flatten().copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| STEPS.iter().any(|step| step.name == *name)), "{names:?}");
    }

    #[test]
    fn a_suite_without_tests_is_noticed() {
        assert!(names_a_test("real_server_answers: test\n\n1 test, 0 benchmarks\n"));
        assert!(!names_a_test("\n0 tests, 0 benchmarks\n"));
    }
}
