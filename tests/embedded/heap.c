/* The largest heap that one prediction takes: of a collective, `heap SPEC ALGORITHM`, or of a
 * training step, `heap SPEC MODEL STRATEGY`. In the place of glibc's functions stand those below;
 * blocks count as malloc_usable_size() says. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "sim/predict.h"
#include "sim/train.h"

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

/* 1 MiB of floats. */
static int predict_collective(const struct tutti_topo *machine, const char *algorithm,
                              struct tutti_err *err)
{
    struct tutti_calibrated costs;
    struct tutti_answer answer = {.time_ps = 0};
    struct tutti_ask ask = {
        .size = sizeof(ask),
        .topo = machine,
        .algorithm = algorithm,
        .params = {.collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 1 << 18},
        .protocol = "auto",
        .protocols = costs.protocols,
        .model = TUTTI_MODEL_FAIR};
    int status = tutti_calibrated_for(machine, &costs, err);

    return status < 0 ? status : tutti_predict(&ask, &answer, err);
}

/* Of 8 samples a device, at half precision. */
static int predict_step(const struct tutti_topo *machine, const char *name, const char *by,
                        struct tutti_err *err)
{
    struct tutti_workload *model = NULL;
    struct tutti_strategy strategy;
    struct tutti_train_answer answer;
    struct tutti_train_ask ask = {.size = sizeof(ask),
                                  .topo = machine,
                                  .strategy = &strategy,
                                  .use = {.batch = 8, .precision = TUTTI_PRECISION_FP16}};
    int status = tutti_model_new(name, NULL, &model, err);

    if (status == 0)
        status = tutti_strategy_named(by, &strategy, err);
    ask.model = model;
    if (status == 0)
        status = tutti_train_predict(&ask, &answer, err);
    tutti_model_free(model);
    return status;
}

int main(int argc, char **argv)
{
    struct tutti_err err = {""};
    struct tutti_topo *machine = NULL;
    int status;

    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: heap SPEC ALGORITHM, heap SPEC MODEL STRATEGY\n");
        return 2;
    }
    status = tutti_topo_from_spec(argv[1], &machine, &err);
    if (status == 0)
        status = argc == 3 ? predict_collective(machine, argv[2], &err)
                           : predict_step(machine, argv[2], argv[3], &err);
    tutti_topo_free(machine);
    if (status < 0) {
        fprintf(stderr, "heap: %s\n", err.text);
        return 1;
    }
    printf("%zu\n", heap.most);
    return 0;
}
