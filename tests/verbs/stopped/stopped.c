/* A queue pair is destroyed, reset or moved to the state of errors while its peer's process is stopped, with the way to
 * it full or not. That waits for nothing, all work is flushed, and the memory is the program's again. The peer is
 * killed, or goes on: then the message that was received from it is acknowledged, and later work of its own fails.
 */
#include "../contract/pair.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PATIENCE_S 60
/* Writes that fill the way: more than sockets and shared memory hold. */
#define WRITES 32
#define LARGE ((size_t)1 << 20)

enum end { DESTROYS, RESETS, FAILS, ENDS };

static const char *const NAMES[] = {"destroyed", "reset", "moved to the state of errors"};

/* How the queue pair ends, whether the way to the peer is full by then, and whether the peer goes on. */
struct plan {
    enum end end;
    int is_full, goes_on;
};

/* A child and the socket to it. */
struct child {
    pid_t pid;
    int socket;
};

static void tell(int socket, uint64_t word)
{
    REQUIRE(write(socket, &word, sizeof word) == sizeof word);
}

static uint64_t told(int socket)
{
    uint64_t word;
    REQUIRE(read(socket, &word, sizeof word) == sizeof word);
    return word;
}

static void connect_to(struct base *base, struct ibv_qp *qp, int socket)
{
    tell(socket, qp->qp_num);
    EXPECT(to_init(qp, ALL_RIGHTS), 0);
    EXPECT(to_rtr(qp, base->gid, (uint32_t)told(socket)), 0);
    EXPECT(to_rts(qp, 7), 0);
}

/* The end whose process is stopped. It sends one message before that. */
static void stopped(int socket, const struct plan *plan)
{
    struct base base = open_base(64);
    char *large = calloc(1, LARGE);
    struct ibv_mr *mr = ibv_reg_mr(base.pd, large, LARGE, ALL_RIGHTS);
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    struct ibv_sge from = sge(&base, 0, 64);
    REQUIRE(mr != NULL && qp != NULL);
    connect_to(&base, qp, socket);
    tell(socket, (uintptr_t)large);
    tell(socket, mr->rkey);
    EXPECT(post(qp, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
    tell(socket, 0);
    told(socket);
    struct ibv_wc wc = next_completion(base.cq);
    if (wc.status != IBV_WC_SUCCESS)
        printf("the message that was received ended with %s\n", ibv_wc_status_str(wc.status));
    /* Behind the last bytes of a full way there is no place for the acknowledgment. */
    REQUIRE(wc.status == IBV_WC_SUCCESS || plan->is_full);
    EXPECT(post(qp, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
    REQUIRE(next_completion(base.cq).status != IBV_WC_SUCCESS);
    EXPECT(ibv_poll_cq(base.cq, 1, &wc), 0);
    EXPECT(ibv_destroy_qp(qp), 0);
}

static void fill_the_way(struct ibv_qp *qp, struct ibv_sge from, uint64_t to, uint32_t key, struct ibv_cq *cq)
{
    struct ibv_wc wc;
    for (int count = 0; count < WRITES; count++)
        EXPECT(post(qp, IBV_WR_RDMA_WRITE, 0, &from, 1, to, key), 0);
    for (int turn = 0; turn < 100; turn++) {
        EXPECT(ibv_poll_cq(cq, 1, &wc), 0);
        usleep(1000);
    }
}

/* The end that is not, whose queue pair ends. */
static void ending(int socket, const struct plan *plan)
{
    struct base base = open_base(256);
    char *large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(base.pd, large, LARGE, ALL_RIGHTS);
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    struct ibv_sge to = sge(&base, BYTES, 64), from = {(uintptr_t)large, LARGE, mr->lkey};
    struct ibv_wc wc;
    REQUIRE(qp != NULL);
    connect_to(&base, qp, socket);
    uint64_t address = told(socket);
    uint32_t key = (uint32_t)told(socket);
    EXPECT(post_receive(qp, &to, 1), 0);
    EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
    tell(socket, 0);
    told(socket);
    if (plan->is_full)
        fill_the_way(qp, from, address, key, base.cq);
    if (plan->end != DESTROYS) {
        struct ibv_qp_attr attr = {.qp_state = plan->end == RESETS ? IBV_QPS_RESET : IBV_QPS_ERR};
        EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        for (int left = plan->end == FAILS && plan->is_full ? WRITES : 0; left > 0; left--)
            EXPECT(next_completion(base.cq).status, IBV_WC_WR_FLUSH_ERR);
    }
    EXPECT(ibv_destroy_qp(qp), 0);
    EXPECT(ibv_poll_cq(base.cq, 1, &wc), 0);
    EXPECT(ibv_dereg_mr(mr), 0);
    EXPECT(munmap(large, LARGE), 0);
    /* The others of the process work on. */
    exchange(&base, connect_pair(&base, plain(&base), ALL_RIGHTS, 7));
    tell(socket, 0);
    told(socket);
}

static struct child start(void (*run)(int, const struct plan *), const struct plan *plan)
{
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        alarm(2 * PATIENCE_S);
        run(pair[1], plan);
        exit(0);
    }
    close(pair[1]);
    return (struct child){pid, pair[0]};
}

static int end_of(struct child child)
{
    int ended = 0;
    REQUIRE(waitpid(child.pid, &ended, 0) == child.pid);
    close(child.socket);
    return ended;
}

static void run_plan(const struct plan *plan)
{
    struct child stops = start(stopped, plan), ends = start(ending, plan);
    int status = 0;
    uint64_t numbers[] = {told(stops.socket), told(ends.socket)};
    tell(stops.socket, numbers[1]);
    tell(ends.socket, numbers[0]);
    tell(ends.socket, told(stops.socket));
    tell(ends.socket, told(stops.socket));
    told(stops.socket);
    told(ends.socket);
    EXPECT(kill(stops.pid, SIGSTOP), 0);
    REQUIRE(waitpid(stops.pid, &status, WUNTRACED) == stops.pid && WIFSTOPPED(status));
    tell(ends.socket, 0);
    /* It has ended its queue pair, and the peer is still stopped. */
    told(ends.socket);
    EXPECT(kill(stops.pid, plan->goes_on ? SIGCONT : SIGKILL), 0);
    if (plan->goes_on)
        tell(stops.socket, 0);
    REQUIRE((end_of(stops) == 0) == plan->goes_on);
    tell(ends.socket, 0);
    EXPECT(end_of(ends), 0);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int at = 0; at < 4 * ENDS; at++) {
        struct plan plan = {(enum end)(at / 4), at / 2 % 2, at % 2};
        run_plan(&plan);
        printf("passed %s, %s, the peer %s\n", NAMES[plan.end], plan.is_full ? "the way is full" : "the way is free",
               plan.goes_on ? "goes on" : "is killed");
    }
    printf("passed all whose peers were stopped\n");
    return 0;
}
