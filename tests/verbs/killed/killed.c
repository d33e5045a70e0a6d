/* Processes that are killed while they connect: at each step, at either side, before and after the other side has
 * begun, and in the middle. The other side's work ends with RETRY_EXC_ERR, and its queue pair connects to a successor.
 *
 * killed [--seed N]   (the moments in the middle)
 */
#include "../contract/pair.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PATIENCE_S 60
#define MANY 1000
#define AT_ONCE 6

enum step { RESET, INIT, RTR, RTS, MIDDLE, STEPS };

static const char *const NAMES[] = {"RESET", "INIT", "RTR", "RTS", "the middle"};

/* A case: where the victim is when it is killed, whether it is the one that calls, whether the other side has begun by
 * then, and whether that resets its queue pair at once, or waits for its work to fail. */
struct plan {
    enum step step;
    int victim_calls, other_began, resets_at_once;
    unsigned delay_us;
};

/* A child and the socket to it. */
struct child {
    pid_t pid;
    int socket;
};

static void tell(int socket, uint32_t word)
{
    REQUIRE(write(socket, &word, sizeof word) == sizeof word);
}

static uint32_t told(int socket)
{
    uint32_t word;
    if (read(socket, &word, sizeof word) != sizeof word)
        exit(1);
    return word;
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* The next completion, without keeping a processor. */
static struct ibv_wc wait_for(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    for (long turn = 0; turn < PATIENCE_S * 2000L; turn++) {
        int count = ibv_poll_cq(cq, 1, &wc);
        REQUIRE(count >= 0);
        if (count == 1)
            return wc;
        pause_us(500);
    }
    printf("no completion came within %d s\n", PATIENCE_S);
    exit(1);
}

static struct ibv_qp *small_queue_pair(struct base *base)
{
    struct ibv_qp_init_attr init = plain(base);
    init.cap = (struct ibv_qp_cap){8, 8, 1, 1, 0};
    struct ibv_qp *qp = ibv_create_qp(base->pd, &init);
    REQUIRE(qp != NULL);
    return qp;
}

/* `timeout` as InfiniBand numbers them: 0 is none. */
static int to_rts_within(struct ibv_qp *qp, int timeout)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = (uint8_t)timeout, .retry_cnt = 7, .rnr_retry = 7};
    attr.max_rd_atomic = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

static void advance(struct base *base, struct ibv_qp *qp, enum step step, uint32_t peer, int timeout)
{
    if (step >= INIT)
        EXPECT(to_init(qp, ALL_RIGHTS), 0);
    if (step >= RTR)
        EXPECT(to_rtr(qp, base->gid, peer), 0);
    if (step >= RTS)
        EXPECT(to_rts_within(qp, timeout), 0);
}

static void send_one(struct base *base, struct ibv_qp *qp)
{
    struct ibv_sge from = sge(base, 0, 64);
    EXPECT(post(qp, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
}

/* A message each way. */
static void exchange_with_peer(struct base *base, struct ibv_qp *qp)
{
    struct ibv_sge to = sge(base, BYTES, 64);
    EXPECT(post_receive(qp, &to, 1), 0);
    send_one(base, qp);
    for (int left = 2; left > 0; left--) {
        struct ibv_wc wc = wait_for(base->cq);
        if (wc.status != IBV_WC_SUCCESS)
            printf("a message ended with %s\n", ibv_wc_status_str(wc.status));
        EXPECT(wc.status, IBV_WC_SUCCESS);
    }
}

/* --- the children: each tells its number, and is told that of its peer */

static void victim(int socket, const struct plan *plan)
{
    struct base base = open_base(16);
    struct ibv_qp *qp = small_queue_pair(&base);
    tell(socket, qp->qp_num);
    advance(&base, qp, plan->step == MIDDLE ? RTS : plan->step, told(socket), 0);
    tell(socket, 0);
    pause();
}

static void survivor(int socket, const struct plan *plan)
{
    struct base base = open_base(16);
    struct ibv_qp *qp = small_queue_pair(&base);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    tell(socket, qp->qp_num);
    /* 0.5 s, which is shorter than the shortest time that is waited. */
    advance(&base, qp, RTS, told(socket), 14);
    send_one(&base, qp);
    tell(socket, 0);
    /* The victim has gone. */
    uint32_t successor = told(socket);
    if (!plan->resets_at_once) {
        struct ibv_wc wc = wait_for(base.cq);
        /* Where a carrier takes a message for sent that is not in place, the next one fails, or one after that. */
        while (wc.status == IBV_WC_SUCCESS) {
            pause_us(10000);
            send_one(&base, qp);
            wc = wait_for(base.cq);
        }
        if (wc.status != IBV_WC_RETRY_EXC_ERR)
            printf("the other side's work ended with %s\n", ibv_wc_status_str(wc.status));
        EXPECT(wc.status, IBV_WC_RETRY_EXC_ERR);
        EXPECT(state(qp), IBV_QPS_ERR);
    }
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    struct ibv_wc wc;
    while (ibv_poll_cq(base.cq, 1, &wc) > 0)
        ;
    advance(&base, qp, RTS, successor, 0);
    exchange_with_peer(&base, qp);
    EXPECT(ibv_destroy_qp(qp), 0);
}

static void successor(int socket, const struct plan *plan)
{
    (void)plan;
    struct base base = open_base(16);
    struct ibv_qp *qp = small_queue_pair(&base);
    tell(socket, qp->qp_num);
    advance(&base, qp, RTS, told(socket), 0);
    exchange_with_peer(&base, qp);
    EXPECT(ibv_destroy_qp(qp), 0);
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

static int stop(struct child child, int signal)
{
    int ended = 0;
    if (signal != 0)
        kill(child.pid, signal);
    REQUIRE(waitpid(child.pid, &ended, 0) == child.pid);
    close(child.socket);
    return ended;
}

/* --- cases */

static void run_plan(const struct plan *plan)
{
    struct child other, dies;
    uint32_t numbers[2];
    for (;;) {
        other = start(survivor, plan);
        dies = start(victim, plan);
        numbers[0] = told(other.socket);
        numbers[1] = told(dies.socket);
        /* Of one address: the one with the smaller number calls. */
        if ((numbers[1] < numbers[0]) == plan->victim_calls)
            break;
        stop(other, SIGKILL);
        stop(dies, SIGKILL);
    }
    if (plan->other_began) {
        tell(other.socket, numbers[1]);
        told(other.socket);
    }
    tell(dies.socket, numbers[0]);
    if (plan->step != MIDDLE)
        told(dies.socket);
    if (plan->other_began)
        pause_us(plan->delay_us);
    stop(dies, SIGKILL);
    if (!plan->other_began) {
        tell(other.socket, numbers[1]);
        told(other.socket);
    }
    struct child next = start(successor, plan);
    tell(other.socket, told(next.socket));
    tell(next.socket, numbers[0]);
    EXPECT(stop(other, 0), 0);
    EXPECT(stop(next, 0), 0);
}

static void many_victims(int socket, const struct plan *plan)
{
    static struct ibv_qp *all[MANY];
    struct base base = open_base(2 * MANY);
    struct ibv_sge to = sge(&base, BYTES, 64);
    (void)plan;
    for (int at = 0; at < MANY; at++)
        tell(socket, (all[at] = small_queue_pair(&base))->qp_num);
    for (int at = 0; at < MANY; at++) {
        advance(&base, all[at], RTS, told(socket), 0);
        EXPECT(post_receive(all[at], &to, 1), 0);
    }
    for (int left = MANY; left > 0; left--)
        EXPECT(wait_for(base.cq).status, IBV_WC_SUCCESS);
    tell(socket, 0);
    pause();
}

/* A thousand queue pairs connect at once, and the process at their other ends is killed. */
static void run_many(void)
{
    static struct ibv_qp *all[MANY];
    struct child dies = start(many_victims, NULL);
    struct base base = open_base(2 * MANY);
    for (int at = 0; at < MANY; at++) {
        all[at] = small_queue_pair(&base);
        advance(&base, all[at], RTS, told(dies.socket), 0);
        send_one(&base, all[at]);
    }
    for (int at = 0; at < MANY; at++)
        tell(dies.socket, all[at]->qp_num);
    for (int left = MANY; left > 0; left--)
        EXPECT(wait_for(base.cq).status, IBV_WC_SUCCESS);
    told(dies.socket);
    stop(dies, SIGKILL);
    for (int at = 0; at < MANY; at++)
        send_one(&base, all[at]);
    for (int left = MANY; left > 0;) {
        struct ibv_wc wc = wait_for(base.cq);
        int at = 0;
        while (all[at]->qp_num != wc.qp_num)
            at++;
        if (wc.status == IBV_WC_SUCCESS) {
            send_one(&base, all[at]);
            continue;
        }
        EXPECT(wc.status, IBV_WC_RETRY_EXC_ERR);
        EXPECT(state(all[at]), IBV_QPS_ERR);
        left--;
    }
    for (int at = 0; at < MANY; at++)
        EXPECT(ibv_destroy_qp(all[at]), 0);
}

static int failed;

/* Waits until fewer than `most` cases run. */
static void wait_for_cases(int *running, int most)
{
    while (*running >= most) {
        int ended = 0;
        if (waitpid(-1, &ended, 0) > 0)
            --*running;
        failed |= ended != 0;
    }
}

static void begin(const struct plan *plan, int *running)
{
    wait_for_cases(running, AT_ONCE);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    ++*running;
    if (pid != 0)
        return;
    char name[160];
    if (plan == NULL)
        snprintf(name, sizeof name, "%d queue pairs", MANY);
    else
        snprintf(name, sizeof name, "in %s, as the %s side, %s%s", NAMES[plan->step],
                 plan->victim_calls ? "calling" : "called",
                 plan->other_began ? "after the other side has begun" : "before the other side begins",
                 plan->resets_at_once ? ", which does not wait" : "");
    pid_t child = fork();
    if (child == 0) {
        if (plan == NULL)
            run_many();
        else
            run_plan(plan);
        exit(0);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    if (ended == 0)
        printf("passed killed %s\n", name);
    else
        printf("failed killed %s (%#x; delay %u us)\n", name, ended, plan == NULL ? 0 : plan->delay_us);
    exit(ended != 0);
}

int main(int count, char **words)
{
    int running = 0, cases = 0;
    unsigned seed = count > 2 && strcmp(words[1], "--seed") == 0 ? (unsigned)strtoul(words[2], NULL, 0) : 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %u\n", seed);
    for (int calls = 0; calls < 2; calls++)
        for (enum step step = RESET; step <= RTS; step++)
            for (int began = 0; began < 2; began++, cases++)
                begin(&(struct plan){step, calls, began, cases % 3 == 2, 100000}, &running);
    for (int at = 0; at < 8; at++, cases++) {
        struct plan plan = {MIDDLE, at % 2, 1, at % 4 == 3, (unsigned)rand_r(&seed) % 6000};
        begin(&plan, &running);
    }
    begin(NULL, &running);
    wait_for_cases(&running, 1);
    printf("%s\n", failed ? "failed" : "passed all that were killed");
    return failed;
}
