/* Programs that go away right after they have received their last message: the peer's work is in place, so it ends with
 * success, and soon. They destroy the queue pair, close all, or end; one that is killed is shown, and not judged.
 *
 * leaving [--rounds N]   (how often each leaves)
 */
#include "../contract/pair.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ROUNDS 5
/* Messages each way before the last one: by then acknowledgments wait for answers. */
#define EXCHANGED 300
#define PATIENCE_S 60

enum leave { DESTROYS, FAILS, CLOSES, RETURNS, EXITS_AT_ONCE, IS_KILLED, LEAVES };

static const char *const NAMES[] = {"destroys its queue pair", "moves it to the state of errors",
                                    "closes the device", "ends", "ends by _exit", "is killed"};
/* Nothing of ours runs at the end of the last two. */
static const int IS_ORDERLY[] = {1, 1, 1, 1, 0, 0};

static void tell(int socket, uint32_t word)
{
    REQUIRE(write(socket, &word, sizeof word) == sizeof word);
}

static uint32_t told(int socket)
{
    uint32_t word;
    REQUIRE(read(socket, &word, sizeof word) == sizeof word);
    return word;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* The next completion that is of a receive, or of a send; those of the other kind are counted. */
static struct ibv_wc next_of(struct ibv_cq *cq, int receives, int *others)
{
    for (;;) {
        struct ibv_wc wc = next_completion(cq);
        if (wc.status != IBV_WC_SUCCESS || !(wc.opcode & IBV_WC_RECV) == !receives)
            return wc;
        ++*others;
    }
}

static struct ibv_qp *connected(struct base *base, int socket)
{
    struct ibv_qp_init_attr init = plain(base);
    init.cap = (struct ibv_qp_cap){8, 8, 1, 1, 0};
    struct ibv_qp *qp = ibv_create_qp(base->pd, &init);
    REQUIRE(qp != NULL);
    tell(socket, qp->qp_num);
    EXPECT(to_init(qp, ALL_RIGHTS), 0);
    EXPECT(to_rtr(qp, base->gid, told(socket)), 0);
    EXPECT(to_rts(qp, 7), 0);
    struct ibv_sge to = sge(base, BYTES, 8);
    EXPECT(post_receive(qp, &to, 1), 0);
    /* Neither sends before the other has a receive. */
    tell(socket, 0);
    told(socket);
    return qp;
}

static void send_one(struct base *base, struct ibv_qp *qp)
{
    struct ibv_sge from = sge(base, 0, 8);
    EXPECT(post(qp, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
}

/* The next message is here, and the one after it has a receive. */
static void take_one(struct base *base, struct ibv_qp *qp, int *sent)
{
    EXPECT(next_of(base->cq, 1, sent).status, IBV_WC_SUCCESS);
    struct ibv_sge to = sge(base, BYTES, 8);
    EXPECT(post_receive(qp, &to, 1), 0);
}

/* The sends of this end are complete. */
static void wait_for_sent(struct base *base, int sent, int wanted)
{
    int received = 0;
    for (; sent < wanted; sent++)
        EXPECT(next_of(base->cq, 0, &received).status, IBV_WC_SUCCESS);
    EXPECT(received, 0);
}

static void leaver(int socket, enum leave how)
{
    struct base base = open_base(32);
    struct ibv_qp *qp = connected(&base, socket);
    int sent = 0;
    for (int at = 0; at < EXCHANGED; at++) {
        take_one(&base, qp, &sent);
        send_one(&base, qp);
    }
    EXPECT(next_of(base.cq, 1, &sent).status, IBV_WC_SUCCESS);
    switch (how) {
    case IS_KILLED:
        raise(SIGKILL);
        break;
    case EXITS_AT_ONCE:
        _exit(0);
    case RETURNS:
        exit(0);
    case CLOSES:
        EXPECT(ibv_destroy_qp(qp), 0);
        EXPECT(ibv_dereg_mr(base.mr), 0);
        EXPECT(ibv_destroy_cq(base.cq), 0);
        EXPECT(ibv_dealloc_pd(base.pd), 0);
        EXPECT(ibv_close_device(base.context), 0);
        break;
    case FAILS: {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        break;
    }
    default:
        EXPECT(ibv_destroy_qp(qp), 0);
    }
    /* The process lives on and makes no call until its peer has closed this. */
    char end;
    EXPECT(read(socket, &end, 1), 0);
    exit(0);
}

/* Returns how long the last message took to complete, and how it ended. */
static double last_message(int socket, enum ibv_wc_status *status)
{
    struct base base = open_base(32);
    struct ibv_qp *qp = connected(&base, socket);
    int sent = 0, received = 0;
    for (int at = 0; at < EXCHANGED; at++) {
        send_one(&base, qp);
        take_one(&base, qp, &sent);
    }
    wait_for_sent(&base, sent, EXCHANGED);
    double began = now_ms();
    send_one(&base, qp);
    *status = next_of(base.cq, 0, &received).status;
    return now_ms() - began;
}

/* One process leaves, another one looks. Returns whether all was well. */
static int run_round(enum leave how, double *took)
{
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    alarm(2 * PATIENCE_S);
    if (pid == 0) {
        close(pair[0]);
        leaver(pair[1], how);
    }
    close(pair[1]);
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    *took = last_message(pair[0], &status);
    close(pair[0]);
    int ended = 0;
    REQUIRE(waitpid(pid, &ended, 0) == pid);
    if (status != IBV_WC_SUCCESS)
        printf("a program %s: its peer's last message ends with %s after %.1f ms\n", NAMES[how],
               ibv_wc_status_str(status), *took);
    return status == IBV_WC_SUCCESS || !IS_ORDERLY[how];
}

static int run(enum leave how, int rounds)
{
    double longest = 0, shortest = 1e9;
    for (int at = 0; at < rounds; at++) {
        /* Each in a process of its own: a child by fork may open a device as the first. */
        int pipes[2], good = 0;
        double took = 0;
        REQUIRE(pipe(pipes) == 0);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            good = run_round(how, &took);
            REQUIRE(write(pipes[1], &took, sizeof took) == sizeof took);
            fflush(stdout);
            exit(!good);
        }
        close(pipes[1]);
        int ended = 0;
        REQUIRE(read(pipes[0], &took, sizeof took) == sizeof took);
        REQUIRE(waitpid(pid, &ended, 0) == pid);
        close(pipes[0]);
        if (ended != 0)
            return 0;
        longest = took > longest ? took : longest;
        shortest = took < shortest ? took : shortest;
    }
    printf("a program %s: its peer's last message takes %.2f to %.2f ms\n", NAMES[how], shortest, longest);
    return 1;
}

int main(int count, char **words)
{
    int rounds = count == 3 && strcmp(words[1], "--rounds") == 0 ? atoi(words[2]) : ROUNDS, good = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int how = DESTROYS; how < LEAVES; how++)
        good &= run((enum leave)how, rounds);
    if (good)
        printf("passed all that leave\n");
    return !good;
}
