//! What commands ask of a lab's keeper, over a Unix socket beside the lab's file.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_lab::{Carrier, Lab, LabError, Link, Shape, WanCut, WanLink, Way};

use super::state::{self, Name, State};
use super::target::Target;
use weft_command::failure::Failure;
use weft_command::shape::bridge_program;

/// The longest request, and the longest answer, in bytes.
const LONGEST: u64 = 1 << 20;

/// How long a command may take to say what it wants, and a keeper to do it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the socket's name ends.
pub(super) const SUFFIX: &str = ".sock";

/// What a command wants of a lab.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Cut(Target, Way),
    Mend(Option<Target>),
    /// And by what packets are carried from now on, if an option says so.
    Shape(Target, Shape, Option<Carrier>),
    Links,
}

/// A host's cable to a rail.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cable {
    pub(super) host: usize,
    pub(super) rail: usize,
    pub(super) interface: String,
    /// How it is cut.
    pub(super) cut: Vec<Way>,
    /// What happens to frames that come from the host.
    pub(super) from_host: Shape,
    /// What happens to those that go there.
    pub(super) to_host: Shape,
    /// By what packets are carried; `None`: the kernel itself.
    pub(super) carrier: Option<Carrier>,
}

/// Why it can't have it.
#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    /// It makes no sense, as against: it did not work.
    is_usage: bool,
    message: String,
}

/// All links of a lab, as they are now.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Links {
    pub(super) cables: Vec<Cable>,
    /// Between clusters.
    pub(super) wan: Vec<WanLink>,
    /// How each of those is cut.
    pub(super) wan_cuts: Vec<Vec<WanCut>>,
    /// By what packets of each of those are carried.
    pub(super) wan_carriers: Vec<Option<Carrier>>,
}

/// All links of the lab, as they are then; or why not.
type Answer = Result<Links, Refusal>;

/// The lab of a keeper: `None` when it is going down.
pub(super) type Kept = Arc<Mutex<Option<Lab>>>;

/// Asks the keeper of a lab, and waits for what it says.
pub(super) fn ask(name: &Name, request: &Request) -> Result<Links, Failure> {
    let (_, path) = State::locate(name)?;
    let cannot = || Failure::while_doing(format!("cannot ask the keeper of lab {name}"));
    let mut stream = with_short_path(&path, |path| UnixStream::connect(path)).map_err(cannot())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(cannot())?;
    let mut line = to_line(request);
    stream.write_all(&line).map_err(cannot())?;
    line.clear();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line).map_err(cannot())?;
    let answer: Answer = serde_json::from_slice(&line)
        .map_err(|_| Failure::Runtime(format!("the keeper of lab {name} is another version of weft, or has ended")))?;
    answer.map_err(
        |Refusal { is_usage, message }| {
            if is_usage { Failure::Usage(message) } else { Failure::Runtime(message) }
        },
    )
}

/// Answers what commands ask, from a thread of its own, until the process ends.
pub(super) fn serve(path: &Path, lab: Kept) -> Result<(), Failure> {
    let cannot = || Failure::while_doing(path.display());
    // One of a keeper of the same name that was killed.
    fs::remove_file(path).or_else(state::gone).map_err(cannot())?;
    let listener = with_short_path(path, |path| UnixListener::bind(path)).map_err(cannot())?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(cannot())?;
    let body = move || {
        for stream in listener.incoming().flatten() {
            // One that hung up does not want to know.
            let _ = converse(&stream, &lab);
        }
    };
    thread::Builder::new().name("weft-lab-control".to_owned()).spawn(body).map(drop).map_err(cannot())
}

/// The address of a socket has room for 107 bytes, a directory may have a longer name.
fn with_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let directory = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    act(&short.join(path.file_name().ok_or(ErrorKind::InvalidInput)?))
}

fn converse(mut stream: &UnixStream, lab: &Kept) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line)?;
    let request = serde_json::from_slice(&line)?;
    stream.write_all(&to_line(&answer(&request, lab)))
}

fn answer(request: &Request, lab: &Kept) -> Answer {
    let mut lab = lab.lock().unwrap_or_else(PoisonError::into_inner);
    let gone = || Refusal { is_usage: false, message: "the lab is going down".to_owned() };
    let lab = lab.as_mut().ok_or_else(gone)?;
    obey(lab, request).map_err(|error| Refusal { is_usage: error.is_callers(), message: error.to_string() })?;
    let wan = lab.plan().wan.clone();
    let wan_cuts = (0..wan.len()).map(|link| lab.wan_cuts(link)).collect();
    let wan_carriers = (0..wan.len()).map(|link| lab.wan_carrier(link)).collect();
    Ok(Links { cables: cables(lab), wan, wan_cuts, wan_carriers })
}

fn obey(lab: &mut Lab, request: &Request) -> Result<(), LabError> {
    match request {
        Request::Cut(Target::Rail(link), way) => lab.cut(*link, *way),
        Request::Cut(target, way) => {
            let cuts = target.wan_cuts(lab.plan(), *way).map_err(LabError::Clusters)?;
            cuts.into_iter().try_for_each(|(link, cut)| lab.cut_wan(link, cut))
        }
        Request::Mend(Some(Target::Rail(link))) => lab.mend(*link),
        Request::Mend(Some(target)) => {
            let links = target.links(lab.plan()).map_err(LabError::Clusters)?;
            links.into_iter().try_for_each(|link| lab.mend_wan(link))
        }
        Request::Mend(None) => {
            let (rails, wan) = (lab.plan().links, lab.plan().wan.len());
            (0..rails).try_for_each(|rail| lab.mend(Link { host: None, rail }))?;
            (0..wan).try_for_each(|link| lab.mend_wan(link))
        }
        Request::Shape(target, shape, carrier) => {
            let before = lab.plan().carrier;
            lab.set_carrier(carrier.or(before));
            let shaped = shape_link(lab, target, shape);
            if shaped.is_err() {
                lab.set_carrier(before);
            }
            shaped
        }
        Request::Links => Ok(()),
    }
}

fn shape_link(lab: &mut Lab, target: &Target, shape: &Shape) -> Result<(), LabError> {
    let program = bridge_program()?;
    if let Target::Rail(link) = target {
        return lab.shape(*link, shape, &program);
    }
    let mut links = target.links(lab.plan()).map_err(LabError::Clusters)?.into_iter();
    links.try_for_each(|link| lab.shape_wan(link, [shape, shape], &program))
}

fn cables(lab: &Lab) -> Vec<Cable> {
    let of_host = |host: usize| {
        lab.host(host).rails().iter().enumerate().map(move |(rail, at)| {
            let [from_host, to_host] = lab.shapes(host, rail);
            let (interface, cut, carrier) = (at.interface.clone(), lab.cuts(host, rail), lab.carrier(rail));
            Cable { host, rail, interface, cut, from_host, to_host, carrier }
        })
    };
    (0..lab.hosts().len()).flat_map(of_host).collect()
}

fn to_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("plain values become JSON");
    line.push(b'\n');
    line
}
