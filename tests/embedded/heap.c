/* The largest heap that one prediction takes: `heap SPEC ALGORITHM`. In the place of
 * glibc's functions stand those below; blocks count as malloc_usable_size() says. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "sim/predict.h"

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static struct {
    size_t now;
    size_t most;
} heap;

static void *note(void *block)
{
    heap.now += block != NULL ? malloc_usable_size(block) : 0;
    heap.most = heap.now > heap.most ? heap.now : heap.most;
    return block;
}

void *malloc(size_t bytes)
{
    return note(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return note(__libc_calloc(count, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return note(__libc_memalign(alignment, bytes));
}

void *realloc(void *old, size_t bytes)
{
    heap.now -= old != NULL ? malloc_usable_size(old) : 0;
    return note(__libc_realloc(old, bytes));
}

void free(void *block)
{
    heap.now -= block != NULL ? malloc_usable_size(block) : 0;
    __libc_free(block);
}

int main(int argc, char **argv)
{
    struct tutti_err err = {""};
    struct tutti_topo *machine = NULL;
    struct tutti_calibrated costs;
    struct tutti_answer answer = {.time_ps = 0};
    struct tutti_ask ask = {.size = sizeof(ask), .protocol = "auto"};
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: heap SPEC ALGORITHM\n");
        return 2;
    }
    ask.algorithm = argv[2];
    ask.params = (struct tutti_coll_params){
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 1 << 18};
    ask.model = TUTTI_MODEL_FAIR;
    status = tutti_topo_from_spec(argv[1], &machine, &err);
    if (status == 0)
        status = tutti_calibrated_for(machine, &costs, &err);
    ask.topo = machine;
    ask.protocols = costs.protocols;
    if (status == 0)
        status = tutti_predict(&ask, &answer, &err);
    tutti_topo_free(machine);
    if (status < 0) {
        fprintf(stderr, "heap: %s\n", err.text);
        return 1;
    }
    printf("%zu\n", heap.most);
    return 0;
}
