/* A libpmix for tests: processes of one host that exchange values through files of a folder.
 *
 * PMIX_RANK, FAKE_PMIX_SIZE   which process it is, and how many there are
 * FAKE_PMIX_DIR               the folder
 * FAKE_PMIX                   what it does wrong, if anything: see `is`
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct proc { char nspace[256]; uint32_t rank; };
struct bytes { char *bytes; size_t size; };
struct value { uint16_t type; union { uint32_t uint32; struct bytes bo; uint64_t all[3]; } data; };

static unsigned fences;

static int number(const char *name) { const char *text = getenv(name); return text ? atoi(text) : 0; }
static int is(const char *what) { const char *text = getenv("FAKE_PMIX"); return text && strcmp(text, what) == 0; }

static void path(char *to, size_t room, const char *kind, int rank, const char *key)
{
    snprintf(to, room, "%s/%s.%d.%s", getenv("FAKE_PMIX_DIR"), kind, rank, key);
}

/* A file that is whole as soon as it is there. */
static int store(const char *kind, int rank, const char *key, const char *bytes, size_t size)
{
    char name[1024], early[1024];
    path(name, sizeof name, kind, rank, key);
    path(early, sizeof early, "early", rank, key);
    FILE *file = fopen(early, "w");
    if (!file) return -1;
    size_t done = fwrite(bytes, 1, size, file);
    return fclose(file) == 0 && done == size && rename(early, name) == 0 ? 0 : -1;
}

const char *PMIx_Error_string(int status)
{
    return status == -24 ? "TIMEOUT" : status == -25 ? "UNREACHABLE" : status == -46 ? "NOT-FOUND" : NULL;
}

int PMIx_Init(struct proc *proc, const void *info, size_t infos)
{
    if (is("init fails")) return -25;
    strcpy(proc->nspace, "fake");
    proc->rank = is("rank 9") ? 9 : number("PMIX_RANK");
    return 0;
}

int PMIx_Finalize(const void *info, size_t infos) { return store("finalized", number("PMIX_RANK"), "yes", "", 0); }

int PMIx_Put(uint8_t scope, const char *key, struct value *value)
{
    if (scope != 3 || value->type != 27) return -27;
    return store("put", number("PMIX_RANK"), key, value->data.bo.bytes, value->data.bo.size);
}

int PMIx_Commit(void) { return is("commit fails") ? -1 : 0; }

int PMIx_Fence(const struct proc *procs, size_t count, const void *info, size_t infos)
{
    char key[32], name[1024];
    if (is("fence times out")) return -24;
    snprintf(key, sizeof key, "%u", fences++);
    if (store("fence", number("PMIX_RANK"), key, "", 0) != 0) return -1;
    for (int rank = 0; rank < number("FAKE_PMIX_SIZE"); rank++) {
        path(name, sizeof name, "fence", rank, key);
        while (access(name, F_OK) != 0) usleep(1000);
    }
    return 0;
}

int PMIx_Get(const struct proc *proc, const char *key, const void *info, size_t infos, struct value **out)
{
    if (is("get gives nothing")) { *out = NULL; return 0; }
    struct value *value = *out = calloc(1, sizeof *value);
    if (strcmp(key, "pmix.job.size") == 0) {
        value->type = is("size is text") ? 3 : 14;
        if (!is("size is text")) value->data.uint32 = number("FAKE_PMIX_SIZE");
        return proc->rank == UINT32_MAX - 1 ? 0 : -27;
    }
    if (is("get is a number")) { value->type = 14; return 0; }
    value->type = 27;
    if (is("get is nowhere")) { value->data.bo.size = 5; return 0; }
    if (is("get is long")) { value->data.bo.bytes = malloc(20000); value->data.bo.size = 20000; return 0; }
    char name[1024];
    path(name, sizeof name, "put", proc->rank, key);
    FILE *file = fopen(name, "r");
    if (!file) { free(value); return -46; }
    value->data.bo.bytes = malloc(1 << 20);
    value->data.bo.size = fread(value->data.bo.bytes, 1, 1 << 20, file);
    fclose(file);
    return 0;
}
