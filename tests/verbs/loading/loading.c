/* How programs come to Weft's libibverbs: linked with a copy under another name, as Python's packages bundle it, or
 * by name, as NCCL does; and libraries of adapters load above it.
 *
 * Linked with bundled.c, which finds no device. Prints a line for each case.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                 \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

typedef struct ibv_device **get_list(int *);
typedef void free_list(struct ibv_device **);
typedef const char *get_name(struct ibv_device *);

/* The functions of a library find Weft's device. */
static void find_device(void *get, void *free_it, void *name)
{
    int count = 0;
    struct ibv_device **list = ((get_list *)get)(&count);
    REQUIRE(list != NULL && count == 1);
    REQUIRE(strcmp(((get_name *)name)(list[0]), "weft0") == 0);
    ((free_list *)free_it)(list);
}

static void by_name(const char *library)
{
    void *found = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(found != NULL);
    /* With the version, as NCCL asks for it, and without. */
    find_device(dlvsym(found, "ibv_get_device_list", "IBVERBS_1.1"),
                dlvsym(found, "ibv_free_device_list", "IBVERBS_1.1"),
                dlvsym(found, "ibv_get_device_name", "IBVERBS_1.1"));
    find_device(dlsym(found, "ibv_get_device_list"), dlsym(found, "ibv_free_device_list"),
                dlsym(found, "ibv_get_device_name"));
    printf("passed %s\n", library);
}

/* A library of adapters: all that it wants of libibverbs is there, and no device of ours is its own. */
static void above(const char *library, const char *question)
{
    void *found = dlopen(library, RTLD_NOW);
    if (found == NULL) {
        /* It may not be there. That it does not load is another matter. */
        const char *reason = dlerror();
        REQUIRE(strstr(reason, "No such file") != NULL);
        printf("absent %s\n", library);
        return;
    }
    bool (*is_supported)(struct ibv_device *) = (bool (*)(struct ibv_device *))dlsym(found, question);
    struct ibv_device **list = ibv_get_device_list(NULL);
    REQUIRE(list != NULL && list[0] != NULL);
    if (is_supported != NULL)
        REQUIRE(!is_supported(list[0]));
    ibv_free_device_list(list);
    printf("passed %s\n", library);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    find_device(ibv_get_device_list, ibv_free_device_list, ibv_get_device_name);
    printf("passed the bundled one\n");
    by_name("libibverbs.so");
    by_name("libibverbs.so.1");
    above("libmlx5.so.1", "mlx5dv_is_supported");
    above("libefa.so.1", "efadv_is_supported");
    printf("passed all\n");
    return 0;
}
