//! The experiments that `weft figures` makes: what each asks, where the literature asks it, and by which command.

mod experiment;
mod groups;
#[cfg(test)]
mod tests;

pub(crate) use experiment::{Experiment, Scale};
pub(crate) use groups::GROUPS;

const IWARP_NICS: &str = "Rashti and Afsahi, 10-Gigabit iWARP Ethernet (CAC 2007)";
const OUT_OF_ORDER: &str = "Balaji et al., out-of-order iWARP (SC 2007)";
const CLUSTERS: &str = "Jin et al., RDMA over IP on a WAN (Ammasso, degen; 2005)";
const MULTI_EDGE: &str = "Karlsson et al., MultiEdge (IPDPS 2007)";
const BIP: &str = "Prylli, Geoffray et al., BIP and MPI-BIP";
const FAIRNESS: &str = "no benchmark of the literature; what RFC 9743 section 5 asks of a congestion controller";
const FENCES: &str = "Santhanaraman et al., one-sided fences";

/// All of them, in the order of the page.
pub(crate) const ALL: [Experiment; 51] = [
    Experiment::new(
        "latency",
        IWARP_NICS,
        ["latency --size 8,4K --quick", "latency --size 8,64,512,4K,32K,256K --brief"],
        [0.1, 2.1, 6.0],
    )
    .long("latency --size 8,64,512,4K,32K,256K")
    .asks("How long does a message take?", "size", "half round trip: median, distribution"),
    Experiment::new(
        "latency-edge",
        MULTI_EDGE,
        [
            "latency --lab 1G --transport edge --vs iwarp,sockets --size 8 --quick",
            "latency --lab 1G --transport edge --vs iwarp,sockets --size 8,512,4K,64K --brief",
        ],
        [0.1, 1.2, 3.5],
    )
    .asks("How long over Edge, through a link?", "size", "half round trip: median, distribution"),
    Experiment::new(
        "short-edge",
        MULTI_EDGE,
        [
            "latency --lab none --transport edge --vs edge:raw=on,sockets --size 8 --quick",
            "latency --lab none --transport edge --vs edge:raw=on,sockets --size 8",
        ],
        [0.1, 0.6, 1.0],
    )
    .asks("How long do 8 bytes over Edge take?", "UDP or frames of its own", "half round trip: median, distribution")
    .long_only(),
    Experiment::new(
        "latency-shm",
        IWARP_NICS,
        [
            "latency --transport shm --vs ring,iwarp --size 8 --quick",
            "latency --transport shm --vs ring,iwarp,sockets --size 8,512,4K,64K --brief",
        ],
        [0.1, 0.4, 2.5],
    )
    .asks("How long through shared memory?", "size", "half round trip: median, distribution"),
    Experiment::new(
        "bandwidth",
        IWARP_NICS,
        ["bandwidth --size 64K --quick", "bandwidth --size 4K,16K,64K,256K,1M --brief"],
        [0.1, 1.5, 5.0],
    )
    .long("bandwidth --size 4K,16K,64K,256K,1M")
    .asks("How fast are streams, at what cost?", "size", "throughput; processor time of both sides"),
    Experiment::new("rate", IWARP_NICS, ["rate --quick", "rate --size 8,64,512 --brief"], [0.1, 1.5, 2.5]).asks(
        "How many small messages a second?",
        "size",
        "messages a second",
    ),
    Experiment::new(
        "rate-edge",
        MULTI_EDGE,
        ["rate --lab none --transport edge --vs sockets --size 8 --quick", "rate --lab none --transport edge --size 8"],
        [0.1, 1.0, 2.0],
    )
    .asks("How many small messages over Edge?", "contestant", "messages of 8 bytes a second, over UDP")
    .long_only(),
    Experiment::new("logp", BIP, ["logp --size 1K --vs sockets --quick", "logp --size 8,1K,16K"], [0.1, 1.2, 6.0])
        .long("logp --size 8..64K")
        .asks(
            "What does a message cost each end?",
            "size",
            "LogP: overhead of sender and receiver, gap, latency, gap per byte",
        ),
    Experiment::new("split", OUT_OF_ORDER, ["split --size 16K --quick", "split --size 16K --brief"], [0.1, 0.5, 8.0])
        .long("split")
        .asks(
            "Which stage belongs on which thread?",
            "split, size, markers, cache",
            "half round trip, throughput; share of a processor",
        )
        .found("The host-offloaded design carries most; markers cost it 15 % of its bandwidth at 10 Gb/s."),
    Experiment::new(
        "cache-traffic",
        OUT_OF_ORDER,
        ["cache-traffic --size 64K --vs sockets --quick --launches 1", "cache-traffic --size 4K,64K,1M --launches 1"],
        [0.3, 3.0, 15.0],
    )
    .long("cache-traffic --launches 3")
    .asks(
        "What does a byte move in the caches?",
        "size, design",
        "misses of the last cache and the kernel's copies, for each byte of payload, at both sides",
    )
    .needs("the processor's counters and perf, or valgrind")
    .without_launches()
    .long_only(),
    Experiment::new("markers", OUT_OF_ORDER, ["markers --size 8,64K --quick", "markers --brief"], [0.2, 0.8, 2.5])
        .asks("What do markers cost?", "spacing of markers, size", "half round trip, throughput"),
    Experiment::new(
        "ping-ping",
        BIP,
        ["ping-ping --size 1K --vs sockets --quick", "ping-ping --size 8,1K,64K"],
        [0.1, 2.0, 8.0],
    )
    .long("ping-ping --size 8..64K")
    .asks("What do both ways at once cost?", "size", "time of an exchange, throughput of both directions together")
    .found("MPI-BIPng takes up to 67 % less for ping-ping and 49 % less for full duplex than BIP.")
    .long_only(),
    Experiment::new(
        "in-order-tax",
        OUT_OF_ORDER,
        ["in-order-tax --vs iwarp,sockets:crc --quick", "in-order-tax"],
        [0.2, 6.0, 12.0],
    )
    .asks("What does readiness to reorder cost?", "contestant, size", "half round trip, throughput on real packets")
    .long_only(),
    Experiment::new(
        "isosurface",
        OUT_OF_ORDER,
        ["isosurface --side 64 --size 8K --wait block --vs sockets --quick", "isosurface --markers on --wait block"],
        [0.1, 1.0, 30.0],
    )
    .long("isosurface --side 1024,2048,4096,8192 --markers on --wait block")
    .asks(
        "How long does an application render?",
        "data set, size of its pieces, design",
        "execution time, drawing alone; processor time of both sides",
    ),
    Experiment::new(
        "overlap",
        IWARP_NICS,
        [
            "overlap --size 64K --computation 100 --target polling --quick",
            "overlap --size 64K --computation 100,1000 --brief",
        ],
        [0.2, 1.7, 18.0],
    )
    .long("overlap --size 4K,64K,128K --computation 1,10,100,300,1000,2000")
    .asks(
        "How much computation is hidden?",
        "target (silent, computing, polling), size, computation",
        "overlap, hidden share",
    ),
    Experiment::new(
        "links",
        MULTI_EDGE,
        ["links --links 1,2 --seconds 1 --rate 200M", "links --links 1,2,4,8 --seconds 1"],
        [0.4, 1.4, 7.0],
    )
    .long("links --links 1,2,4,8 --seconds 2")
    .asks(
        "What do several links carry together?",
        "links (1 to 8)",
        "throughput; processor time; extra frames; share out of order",
    )
    .found("Four links of 1 Gb/s together carry 3.5 times what one does, at the price of the host's processor."),
    Experiment::new(
        "links-rates",
        MULTI_EDGE,
        [
            "links --links 1,2,1x400M --rate 200M --vs tcp --seconds 1",
            "links --links 1,2,4,8,1x10G,2x5G --vs tcp --seconds 2",
        ],
        [0.2, 3.5, 8.0],
    )
    .long("links --links 1,2,4,8,1x10G,2x5G --vs tcp --seconds 3")
    .asks(
        "What does a GB over links cost?",
        "links (1 to 8 of 1 Gb/s, one of 10 Gb/s, two of 5 Gb/s)",
        "throughput; processor time of both sides; beside a stream of TCP on each link",
    )
    .found("One link of 10 Gb/s carries about 88 % of its rate, eight of 1 Gb/s 65 %.")
    .long_only(),
    Experiment::new(
        "links-sizes",
        MULTI_EDGE,
        [
            "links --links 2 --rate 200M --pattern ping-pong,one-way,two-way --size 64K --seconds 0.7 --vs none",
            "links --links 4 --pattern ping-pong,one-way,two-way --size 4,1M --seconds 1 --vs tcp",
        ],
        [0.2, 2.0, 140.0],
    )
    .asks(
        "What do size and direction change?",
        "size (4 B to 1 MB), pattern (ping-pong, one way, two way)",
        "throughput, half round trip; share of a processor; extra frames; share out of order",
    )
    .long("links --links 1,4,8 --pattern ping-pong,one-way,two-way --size 4..1M --seconds 1 --vs tcp,mptcp"),
    Experiment::new(
        "links-unlike",
        MULTI_EDGE,
        ["links --links 2 --rate 100M,200M --seconds 1", "links --links 4 --rate 100M,200M,500M,1G --seconds 2"],
        [0.3, 0.8, 3.0],
    )
    .long("links --links 4 --rate 100M,200M,500M,1G")
    .asks(
        "What do unlike links carry together?",
        "contestant",
        "throughput; processor time; extra frames; share out of order",
    ),
    Experiment::new(
        "distance",
        CLUSTERS,
        [
            "links --links 1 --rate 200M --emulate delay=5ms,loss=0.1 --vs tcp:cubic --seconds 1",
            "links --links 1 --rate 200M --emulate delay=10ms --emulate delay=50ms --emulate delay=10ms,loss=0.1 \
             --emulate delay=50ms,loss=0.1 --vs tcp:cubic,tcp:bbr --seconds 2",
        ],
        [0.2, 4.5, 8.5],
    )
    .long(
        "links --links 1 --rate 200M --emulate delay=1ms --emulate delay=10ms --emulate delay=50ms \
         --emulate delay=1ms,loss=0.1 --emulate delay=10ms,loss=0.1 --emulate delay=50ms,loss=0.1 \
         --vs tcp:cubic,tcp:bbr --seconds 2",
    )
    .asks("What do distance and loss leave?", "round trip, loss", "throughput, beside TCP with cubic and with bbr"),
    Experiment::new(
        "distance-faults",
        CLUSTERS,
        [
            "links --links 1 --rate 200M --emulate delay=2ms,loss=1 --emulate delay=15ms,jitter=20ms \
             --vs tcp:cubic --seconds 2 --omit 1",
            "links --links 1 --rate 200M --emulate delay=2ms,loss=1 --emulate delay=25ms,loss=0.1 \
             --emulate delay=15ms,jitter=20ms --emulate delay=50ms --vs tcp:cubic,tcp:bbr --seconds 4 --omit 1",
        ],
        [0.3, 6.0, 65.0],
    )
    .long(
        "links --links 1 --rate 200M --emulate delay=2ms,loss=1 --emulate delay=25ms,loss=0.1 \
         --emulate delay=15ms,jitter=20ms --emulate delay=50ms --vs tcp:cubic,tcp:bbr --seconds 30 --omit 3",
    )
    .asks(
        "What do faults at a distance leave?",
        "4 ms with 1 % loss, 50 ms with 0.1 %, 50 ms give or take 20, 100 ms",
        "throughput without its first seconds, beside TCP with cubic and with bbr; processor time",
    )
    .long_only(),
    Experiment::new(
        "distance-cpu",
        CLUSTERS,
        [
            "links --links 1 --rate 200M --emulate delay=0ms --emulate delay=25ms --vs tcp:cubic --seconds 1",
            "links --links 1 --rate 200M --emulate delay=0ms --emulate delay=25ms --vs tcp:cubic,tcp:bbr \
             --seconds 3 --omit 1",
        ],
        [0.2, 2.5, 6.0],
    )
    .long(
        "links --links 1 --rate 200M --emulate delay=0ms --emulate delay=25ms --vs tcp:cubic,tcp:bbr \
         --seconds 5 --omit 1",
    )
    .asks(
        "What does a GB cost at a distance?",
        "round trip (0 and 50 ms, through the same emulator)",
        "throughput; processor time of both sides",
    )
    .long_only(),
    Experiment::new(
        "latency-far",
        CLUSTERS,
        [
            "latency --lab 1G --size 1K --delay 0us,1ms --vs sockets --quick",
            "latency --lab 1G --size 1K --delay 0us,500us,1ms,2ms,4ms --vs edge,sockets --brief",
        ],
        [0.2, 1.0, 35.0],
    )
    .long("latency --lab 1G --size 4..16K --delay 0us,500us,1ms,2ms,4ms,12500us,25ms,50ms --vs edge,sockets")
    .asks("How long does a message take afar?", "round trip, size", "half round trip: median, distribution")
    .found("RDMA is ahead of sockets at each delay, the less the longer it is."),
    Experiment::new(
        "bandwidth-far",
        CLUSTERS,
        [
            "bandwidth --lab 1G --size 16K --iterations 400 --delay 0us,1ms --wait block --vs sockets --quick",
            "bandwidth --lab 1G --size 16K --iterations 4000 --warmup 4000 --wait block --delay 0us,1ms,4ms \
             --vs edge,sockets",
        ],
        [0.2, 2.2, 45.0],
    )
    .long(
        "bandwidth --lab 1G --size 4..16K --iterations 4000 --warmup 4000 --wait block \
         --delay 0us,500us,1ms,2ms,4ms,12500us,25ms,50ms --vs edge,sockets,sockets:buffers=4M",
    )
    .asks(
        "How many bytes a second afar?",
        "round trip, size, buffers of sockets",
        "throughput, without its start (66 MB of 16 KiB messages) and with it; processor time of both sides",
    ),
    Experiment::new(
        "overlap-far",
        CLUSTERS,
        [
            "overlap-ratio --lab 1G --computation 242 --delay 0us,1ms --vs sockets --quick",
            "overlap-ratio --lab 1G --computation 62,422 --delay 0us,1ms,4ms",
        ],
        [0.1, 1.9, 30.0],
    )
    .long(
        "overlap-ratio --lab 1G --computation 62,122,182,242,302,362,422 \
         --delay 0us,500us,1ms,2ms,4ms,12500us,25ms,50ms",
    )
    .asks(
        "Which part of the time is computed?",
        "computation, round trip",
        "t1/t2; time of a transfer with computation",
    )
    .found("The ratio of RDMA is above that of sockets at each delay, by less the longer it is."),
    Experiment::new(
        "progress",
        CLUSTERS,
        [
            "progress --lab 1G --lateness 0ms,16ms --delay 0us,1ms --vs sockets --quick",
            "progress --lab 1G --lateness 0ms,4ms,64ms --delay 0us,1ms,4ms",
        ],
        [0.1, 1.4, 30.0],
    )
    .long("progress --lab 1G --delay 0us,500us,1ms,2ms,4ms,12500us,25ms,50ms")
    .asks("How long to fetch from a busy server?", "lateness of the server, round trip", "time of a fetch: median, p99")
    .found("Reads by RDMA wait for no application, sockets do; what that gains is less the longer the way."),
    Experiment::new(
        "slowdown",
        CLUSTERS,
        [
            "slowdown --lab 1G --size 4K --delay 0us,1ms --vs sockets --quick",
            "slowdown --lab 1G --size 1K,16K --delay 0us,4ms",
        ],
        [0.1, 1.4, 20.0],
    )
    .long("slowdown --lab 1G --size 1K..16K --delay 0us,500us,1ms,2ms,4ms,12500us,25ms,50ms")
    .asks(
        "How much do streams slow a server?",
        "size, round trip",
        "slow-down of a computation beside 40 streams; their processor time",
    )
    .found("Streams by RDMA leave an application more of its processor than streams on sockets, at each distance."),
    Experiment::new(
        "clusters",
        CLUSTERS,
        [
            "clusters --size 4,16K --delay 1ms --transport messages:transport=shm+edge --vs sockets --quick",
            "clusters --size 4,256,4K,16K --delay 1ms",
        ],
        [0.2, 1.8, 20.0],
    )
    .long("clusters --size 4..16K --delay 500us,1ms,4ms")
    .asks(
        "How long in a cluster and across?",
        "where the peer is (same host, same cluster, other cluster), size",
        "half round trip through one interface: median, distribution",
    )
    .found("Inside a cluster RDMA takes 38 % less time than sockets, and the same interface goes across."),
    Experiment::new(
        "connect",
        CLUSTERS,
        ["connect --lab 1G --delay 1ms --vs sockets --quick", "connect --lab 1G --delay 0us,1ms,8ms"],
        [0.1, 1.4, 8.0],
    )
    .long("connect --lab 1G --delay 0us,500us,1ms,2ms,4ms,8ms,25ms,50ms")
    .asks(
        "What does it take to connect?",
        "what connects, round trip",
        "time until a first answer, and until the connection is established; round trips before the first message",
    ),
    Experiment::new(
        "cuts",
        "no benchmark of the literature: docs/cuts.md",
        ["cuts --cuts 4 --peer-cuts 4 --vs tcp --rate 200M", "cuts --cuts 20 --peer-cuts 8"],
        [0.7, 3.3, 130.0],
    )
    .asks(
        "How long does a cut hold data up?",
        "contestant",
        "longest pause, time to full speed, operations counted once, bytes lost",
    )
    .long("cuts --cuts 1000 --peer-cuts 100")
    .without_launches(),
    Experiment::new(
        "fairness",
        FAIRNESS,
        [
            "links --links 1 --rate 600M --emulate delay=2ms,queue=300000 --beside tcp:cubic --seconds 3 --vs none",
            "links --links 1 --rate 600M --emulate delay=2ms,queue=75000 --emulate delay=2ms,queue=300000 \
             --emulate delay=2ms,queue=1200000 --emulate delay=25ms,queue=937500 --emulate delay=25ms,queue=3750000 \
             --emulate delay=25ms,queue=15000000 --beside tcp:cubic --begins own,beside --seconds 12 --vs none",
        ],
        [0.05, 2.8, 90.0],
    )
    .long(
        "links --links 1 --rate 600M --emulate delay=2ms,queue=75000 --emulate delay=2ms,queue=300000 \
         --emulate delay=2ms,queue=1200000 --emulate delay=25ms,queue=937500 --emulate delay=25ms,queue=3750000 \
         --emulate delay=25ms,queue=15000000 --beside tcp:cubic,tcp:reno,tcp:bbr --begins own,beside --seconds 60 \
         --vs tcp:cubic",
    )
    .asks(
        "What does a flow leave another one?",
        "round trip, queue of a quarter, all, and four times rate by delay, the other flow, which of both begins",
        "share of both in the last two thirds of the time",
    ),
    Experiment::new(
        "fairness-far",
        FAIRNESS,
        [
            "links --links 1 --rate 200M --emulate delay=25ms,queue=1250000 --beside same --beside-delay 5ms \
             --vs tcp:cubic --seconds 3",
            "links --links 1 --rate 200M --emulate delay=25ms,queue=1250000 --beside same --beside-delay 5ms \
             --begins own,beside --vs tcp:cubic --seconds 10",
        ],
        [0.3, 5.0, 140.0],
    )
    .long(
        "links --links 1 --rate 200M --emulate delay=25ms,queue=312500 --emulate delay=25ms,queue=1250000 \
         --emulate delay=25ms,queue=5000000 --beside same --beside-delay 5ms --begins own,beside --vs tcp:cubic \
         --seconds 60",
    )
    .asks(
        "What does a near flow leave another?",
        "contestant (both flows are of it), queue, which of both begins",
        "share of both of the flow of 50 ms, beside one of 10 ms, in the last two thirds of the time",
    )
    .long_only(),
    Experiment::new(
        "disorder",
        OUT_OF_ORDER,
        ["disorder --iterations 500 --late 0,5 --lost 0", "disorder"],
        [0.1, 0.2, 1.0],
    )
    .asks(
        "What does disorder cost a receiver?",
        "late segments, lost segments, what the receiver does",
        "goodput, time until in place",
    )
    .without_launches(),
    Experiment::new(
        "reordering",
        OUT_OF_ORDER,
        [
            "reordering --late 5 --lost 0 --vs sockets --quick",
            "reordering --late 0,5 --lost 0,1 --vs iwarp:raw=on,sockets",
        ],
        [0.05, 2.0, 60.0],
    )
    .asks(
        "What does a link's disorder cost?",
        "late packets, lost packets, what the receiver does",
        "goodput, half round trip with its p99; processor time",
    )
    .long("reordering --late 0,1,5,10 --lost 0,0.5,1,2"),
    Experiment::new(
        "fences",
        FENCES,
        ["fence --ranks 2 --fence all --puts 1 --vs none --quick", "fence --ranks 2,8 --fence all --brief"],
        [0.3, 1.8, 40.0],
    )
    .asks("How long does a fence take?", "ranks, puts, kind of fence", "time of puts and fence, beside MPI_Win_fence")
    .long("fence --ranks 8,16,32,64 --fence all"),
    Experiment::new(
        "fences-simulated",
        FENCES,
        ["fence --simulate 8,64 --puts 1", "fence --simulate 8,16,32,64 --puts 0,1,8"],
        [0.1, 0.2, 1.0],
    )
    .asks("How long with a processor each?", "ranks, puts, kind of fence", "time of puts and fence, in virtual time")
    .without_launches(),
    Experiment::new(
        "halos",
        FENCES,
        ["halo --ranks 2,4,8 --cells 16 --vs none --quick", "halo --ranks 2,4,8 --cells 32 --vs none --brief"],
        [0.1, 0.5, 30.0],
    )
    .asks(
        "How long does a halo exchange take?",
        "ranks, dimensions, contiguous or strided faces",
        "time of all puts and the fence",
    )
    .long("halo --ranks 8,16,32,64 --cells 32 --fence all"),
    Experiment::new(
        "window-overlap",
        FENCES,
        [
            "window-overlap --size 64K --fence counted,two-sided --vs none --quick",
            "window-overlap --size 4K,64K,256K --fence all",
        ],
        [0.2, 6.0, 20.0],
    )
    .long("window-overlap --size 16..256K --fence all")
    .asks(
        "How much does a put hide of a fence?",
        "size, kind of fence",
        "computation hidden between put and fence, beside MPI_Win_fence",
    )
    .found("Of a long put up to 90 % is hidden with Fence-RI, nothing with Fence-2S.")
    .long_only(),
    Experiment::new(
        "heat",
        FENCES,
        [
            "heat --ranks 2 --plate 32 --steps 20 --fence all --vs none --quick",
            "heat --ranks 2,4,8 --fence all --vs none",
        ],
        [0.1, 1.0, 30.0],
    )
    .asks(
        "How long does heat on a plate take?",
        "ranks, kind of fence",
        "time to solution; processor time of all ranks",
    )
    .long("heat --ranks 2,4,8,16 --plate 1024 --steps 400 --fence all"),
    Experiment::new(
        "notified-put",
        MULTI_EDGE,
        ["notified-put --vs none --quick", "notified-put --size 8,4K"],
        [0.05, 0.7, 4.0],
    )
    .asks(
        "When does a put's target know of it?",
        "operation (notified put, message, polled memory), size",
        "half round trip: median, distribution",
    )
    .long("notified-put --size 8..64K"),
    Experiment::new("emulator", CLUSTERS, ["emulator --quick", "emulator --brief"], [0.1, 2.9, 6.0])
        .long("emulator")
        .asks("How well does the emulator keep time?", "what is set, carrier", "miss as a share of what it may be"),
    Experiment::new(
        "verbs",
        "perftest, as RDMA NICs are measured",
        ["verbs --quick", "verbs --brief"],
        [0.05, 0.5, 2.0],
    )
    .asks(
        "What do programs for libibverbs get?",
        "what is measured (send, write, read, atomic)",
        "half round trip, throughput, rate; beside Weft's own client over Edge",
    )
    .long("verbs")
    .needs("perftest and Weft's libibverbs.so.1: see weft perf verbs --help"),
    Experiment::new(
        "match",
        IWARP_NICS,
        ["match --others 1000 --quick", "match --others 10,1000,100000 --brief"],
        [0.1, 0.9, 2.5],
    )
    .asks("What does matching a message cost?", "messages beside it", "processor time of a match"),
    Experiment::new(
        "idle",
        MULTI_EDGE,
        ["idle --connections 10 --seconds 0.2 --vs none", "idle --connections 100 --seconds 1"],
        [0.3, 1.8, 4.0],
    )
    .long("idle --connections 100 --seconds 2")
    .asks(
        "What do quiet connections cost?",
        "time since the last message, queue depth",
        "share of a processor, wake-ups, memory",
    ),
    Experiment::new(
        "all-to-all",
        IWARP_NICS,
        ["all-to-all --processes 4,8 --quick", "all-to-all --processes 4,16"],
        [0.2, 1.1, 6.0],
    )
    .asks(
        "How much do many processes exchange?",
        "processes, how they wait",
        "throughput of all together; processor time",
    )
    .long("all-to-all --processes 8,16,32,64"),
    Experiment::new(
        "mpi",
        IWARP_NICS,
        [
            "mpi --library mpich --test latency --size 8 --quick",
            "mpi --library mpich --test latency,bandwidth --size 8,4K,64K,1M --brief",
        ],
        [0.2, 2.8, 35.0],
    )
    .asks(
        "How fast are MPI programs over Weft?",
        "size, what carries the messages",
        "half round trip, throughput; processor time of both sides",
    )
    .long("mpi --test latency,bandwidth,rate,overlap")
    .needs("MPICH: see weft perf mpi --help"),
    Experiment::new(
        "mpi-edge",
        IWARP_NICS,
        [
            "mpi --library mpich --test latency,bandwidth --size 8 --transport weft-edge --vs libfabric-tcp --quick",
            "mpi --library mpich,openmpi --test latency,bandwidth --size 8,64K,1M --transport weft-edge \
             --vs libfabric-tcp --brief",
        ],
        [0.2, 4.0, 10.0],
    )
    .long(
        "mpi --library mpich,openmpi --test latency,bandwidth --size 8,64K,1M --transport weft-edge \
         --vs libfabric-tcp",
    )
    .asks(
        "How fast are MPI programs over Edge?",
        "size, MPI library, what carries the messages",
        "half round trip, throughput of messages in a row; processor time of both sides",
    )
    .needs("MPICH and Open MPI: see weft perf mpi --help")
    .long_only(),
    Experiment::new(
        "mpi-rate",
        BIP,
        [
            "mpi --library mpich --test rate,overlap --vs libfabric-tcp --quick",
            "mpi --library mpich --test rate,overlap --vs libfabric-tcp --brief",
        ],
        [0.3, 1.5, 20.0],
    )
    .asks(
        "What can MPI programs send and hide?",
        "what carries the messages",
        "messages a second; share of a message hidden behind computation",
    )
    .long("mpi --test rate,overlap")
    .found("Without matching on the NIC, computation between MPI_Isend and MPI_Wait hides nothing.")
    .needs("MPICH: see weft perf mpi --help")
    .long_only(),
    Experiment::new(
        "mpi-shm",
        IWARP_NICS,
        [
            "mpi --lab off --library mpich --test bandwidth --size 1M --transport weft-shm --vs shm --quick",
            "mpi --lab off --library mpich --test bandwidth --size 64K,1M --transport weft-shm --vs shm --brief",
        ],
        [0.1, 0.8, 6.0],
    )
    .asks("How fast is MPI on one host?", "size, what carries the messages", "throughput")
    .long("mpi --lab off --test bandwidth --size 64K,1M --transport weft-shm --vs shm")
    .needs("MPICH: see weft perf mpi --help")
    .long_only(),
    Experiment::new(
        "nas",
        BIP,
        [
            "nas --library mpich --benchmark is --processes 2 --vs libfabric-tcp --quick",
            "nas --library mpich --benchmark is --processes 2,4,8",
        ],
        [0.1, 1.0, 60.0],
    )
    .asks(
        "How fast are the NAS benchmarks?",
        "benchmark, class, ranks, MPI library, what carries the messages",
        "operations in a second, time; each run verified",
    )
    .long("nas --class A")
    .found("On 8 processes the speed-up is 5.7 and 7.1 over MPI-BIPng, 2 and 6.2 over IP.")
    .needs("the NAS parallel benchmarks and MPICH: see weft perf nas --help")
    .long_only(),
    Experiment::new(
        "mpi-clusters",
        CLUSTERS,
        [
            "mpi-clusters --library mpich --delay 1ms --vs libfabric-tcp --quick",
            "mpi-clusters --library mpich,openmpi --delay 0us,8ms,50ms --launches 3",
        ],
        [0.2, 5.6, 60.0],
    )
    .long("mpi-clusters --library mpich,openmpi --delay 0us,1ms,2ms,4ms,8ms,25ms,50ms --launches 10")
    .asks(
        "What do two clusters cost an MPI job?",
        "round trip, MPI library, what carries the messages",
        "time of a round of ring, all-to-all, halo and bucket sort, 4 + 4 ranks",
    )
    .without_launches()
    .needs("MPICH and Open MPI: see weft perf mpi --help"),
];
