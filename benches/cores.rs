//! What a second core adds: `cargo bench --bench cores`. Two threads with different keys request the same page, as two workers
//! do, without sockets: authenticate, limit, take the page from the cache, count, log. Each thread is timed in slices so short
//! that most are not interrupted. Only those during which both threads ran are compared, by their medians, because the machine may
//! have other work.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot continue has failed"
)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use animal_store::access::{Access, Authentication, Credentials, LastKey};
use animal_store::api::Operation;
use animal_store::clock::{Clock, Timestamp};
use animal_store::key::{KeyHash, Secret};
use animal_store::limit::{Admission, BanPolicy, Limiter};
use animal_store::log::{Buffer, LogFormat, Sink};
use animal_store::metrics::{OperationLabel, ServerMetrics, WorkerMetrics};
use animal_store::page::PetQuery;
use animal_store::pet::NewPet;
use animal_store::plan::{Limits, MAX_LIMIT, Plan};
use animal_store::store::{Database, Mode, NewKey, Store};

/// A debug build only shows that it runs.
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 21 };
/// Rounds in which the two threads did not run at the same time are repeated, up to this many rounds.
const MAX_ROUNDS: usize = 420;
/// How long each round runs, on one thread and on two.
const ROUND: Duration = Duration::from_millis(40);
/// Requests in a slice.
const SLICE: u32 = 100;
/// The minimum number of slices in a round.
const MIN_SLICES: usize = 10;
const NOW: Timestamp = Timestamp::from_secs(1_794_830_410);
/// A line of the log. It is short, so that the buffer does not fill up before it is written.
const LINE: &[u8] = b"\n";
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // The store is opened on a thread of the runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let service = runtime.block_on(Service::new(folder.path()))?;
    let sink = Sink::to(std::io::sink(), LogFormat::Text, Clock::manual(NOW))?;
    let workers = [0, 1].map(|number| Worker::new(&service, number, sink.buffer()));
    println!("{:<18}{:>12}{:>13}", "", "one thread", "two threads");
    let mut last = 0.0;
    for part in PARTS {
        let figures = measure(part, &workers);
        let Figures { one, two, ratio } = figures;
        println!(
            "{:<18}{one:>9.0} ns{two:>10.0} ns{ratio:>8.2} x one",
            part.0
        );
        last = ratio;
    }
    println!("two threads: {last:.2} x one");
    Ok(())
}

/// What is shared by all threads.
struct Service {
    store: Store,
    access: Access,
    limiter: Limiter,
    metrics: ServerMetrics,
    secrets: [Secret; 2],
}

impl Service {
    async fn new(folder: &std::path::Path) -> anyhow::Result<Self> {
        let database = Database::Sqlite(folder.join("cores.db"));
        let store = Store::open(&database, Mode::Migrate, 100).await?;
        for _ in 0..30 {
            let pet = NewPet::from_json(br#"{"name":"Rex","categoryId":1}"#)?;
            store.create(pet, None).await?;
        }
        let access = Access::default();
        let secrets = [Secret::generate()?, Secret::generate()?];
        for secret in &secrets {
            let limits = Limits::new(MAX_LIMIT, MAX_LIMIT).map_err(anyhow::Error::msg)?;
            let key = NewKey {
                name: "bench".into(),
                plan: Plan::Enterprise(limits),
                created_at: NOW,
                expires_at: None,
            };
            access.directory.apply(&store.add_key(key, secret).await?);
        }
        Ok(Self {
            store,
            access,
            limiter: Limiter::Memory(BanPolicy::default()),
            metrics: ServerMetrics::new(2),
            secrets,
        })
    }
}

/// What one thread has for itself.
struct Worker<'a> {
    service: &'a Service,
    metrics: &'a WorkerMetrics,
    log: Buffer,
    secret: &'a Secret,
    hash: KeyHash,
}

/// A part of a request, and its name.
type Part = (&'static str, fn(&Worker<'_>));

const PARTS: [Part; 6] = [
    ("directory lookup", |worker| worker.look_up()),
    ("metrics count", |worker| worker.count()),
    ("log line", |worker| worker.write_line()),
    ("meter", |worker| worker.decide()),
    ("cached page", |worker| worker.read_page()),
    ("all of a request", |worker| worker.request()),
];

impl<'a> Worker<'a> {
    fn new(service: &'a Service, number: usize, log: Buffer) -> Self {
        let secret = &service.secrets[number];
        Self {
            service,
            metrics: service.metrics.worker(number),
            log,
            secret,
            hash: secret.hash(),
        }
    }

    fn look_up(&self) {
        slice(async || {
            assert!(
                self.service
                    .access
                    .directory
                    .find(black_box(&self.hash))
                    .is_some()
            )
        });
    }

    fn count(&self) {
        let took = Duration::from_micros(70);
        slice(async || {
            self.metrics
                .count(OperationLabel::Operation(Operation::ListPets), 200, took)
        });
    }

    fn write_line(&self) {
        slice(async || self.log.put(black_box(LINE)));
    }

    fn decide(&self) {
        let Service {
            access, limiter, ..
        } = self.service;
        let key = access.directory.find(&self.hash).expect("a key");
        let meter = access.directory.meter(&key);
        slice(async || {
            let decision = limiter.decide(key.identity, meter, key.limits, NOW).await;
            assert_eq!(decision.admission, Admission::Admitted);
        });
    }

    fn read_page(&self) {
        slice(async || {
            let page = self.service.store.page(PetQuery::default()).await;
            assert!(page.expect("a page").next.is_some());
        });
    }

    fn request(&self) {
        let Service {
            store,
            access,
            limiter,
            ..
        } = self.service;
        slice(async || {
            let credentials = Credentials::Token(self.secret.reveal().as_bytes());
            let authentication = access
                .authenticate(store, credentials, &LastKey::default(), CLIENT, NOW)
                .await;
            let Ok(Authentication::Key(key)) = authentication else {
                panic!("{authentication:?}");
            };
            let meter = access.directory.meter(&key);
            let decision = limiter.decide(key.identity, meter, key.limits, NOW).await;
            assert_eq!(decision.admission, Admission::Admitted);
            let page = store.page(PetQuery::default()).await;
            assert!(black_box(page).expect("a page").next.is_some());
            self.metrics.count(
                OperationLabel::Operation(Operation::ListPets),
                200,
                Duration::from_micros(70),
            );
            self.log.put(black_box(LINE));
        });
    }
}

fn slice(mut step: impl AsyncFnMut()) {
    block_on(async {
        for _ in 0..SLICE {
            step().await;
        }
    });
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// Nanoseconds for each request, and what two threads do together compared with one.
struct Figures {
    one: f64,
    two: f64,
    ratio: f64,
}

fn measure((_, work): Part, workers: &[Worker<'_>; 2]) -> Figures {
    let (mut one, mut two, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..MAX_ROUNDS {
        let [alone] = run(work, [&workers[round % 2]]);
        let [first, second] = run(work, [&workers[0], &workers[1]]);
        let alone = alone.iter().filter(|slice| slice.is_whole);
        let each = [concurrent(&first, &second), concurrent(&second, &first)];
        let (Some(alone), [Some(a), Some(b)]) = (median(alone.map(Slice::nanos)), each) else {
            continue;
        };
        one.push(alone);
        two.push((a + b) / 2.0);
        ratio.push(alone / a + alone / b);
        if ratio.len() == ROUNDS {
            break;
        }
    }
    let median = |figures: Vec<f64>| median(figures).expect("the two threads ran at the same time");
    Figures {
        one: median(one),
        two: median(two),
        ratio: median(ratio),
    }
}

/// A few requests in a row.
struct Slice {
    began: Instant,
    ended: Instant,
    /// Whether the thread ran all the time.
    is_whole: bool,
}

impl Slice {
    fn nanos(&self) -> f64 {
        (self.ended - self.began).as_secs_f64() * 1e9 / f64::from(SLICE)
    }
}

/// The median of the slices during which the other thread ran all the time too: on a machine with other work, two threads may
/// well take turns.
fn concurrent(slices: &[Slice], others: &[Slice]) -> Option<f64> {
    let is_beside = |slice: &&Slice| {
        let first = others.partition_point(|other| other.ended <= slice.began);
        let after = others.partition_point(|other| other.began < slice.ended);
        let during = others.get(first..after).unwrap_or_default();
        slice.is_whole && !during.is_empty() && during.iter().all(|other| other.is_whole)
    };
    let slices = slices.iter().filter(is_beside);
    let nanos: Vec<_> = slices.map(Slice::nanos).collect();
    (nanos.len() >= MIN_SLICES).then(|| median(nanos)).flatten()
}

/// Runs the work on these workers at the same time.
fn run<const N: usize>(work: fn(&Worker<'_>), workers: [&Worker<'_>; N]) -> [Vec<Slice>; N] {
    let start = Barrier::new(N);
    std::thread::scope(|scope| {
        let threads = workers.map(|worker| {
            scope.spawn(|| {
                work(worker);
                start.wait();
                let (round, mut slices) = (Instant::now(), Vec::new());
                while round.elapsed() < ROUND {
                    let cpu = cpu_time();
                    let began = Instant::now();
                    work(worker);
                    let ended = Instant::now();
                    let is_whole = (cpu_time() - cpu) * 20 >= (ended - began) * 19;
                    slices.push(Slice {
                        began,
                        ended,
                        is_whole,
                    });
                }
                slices
            })
        });
        threads.map(|thread| thread.join().expect("slices"))
    })
}

/// How long this thread has run.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().expect("a time")
}

fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<_> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
