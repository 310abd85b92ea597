/* What a step of real training takes on one thread, and what share of it are the products alone:
 * train_bench [MODEL] [BATCH] [STEPS] [OPTIMIZER] [TYPE] [openblas|loops]. Medians of steps:
 * forward, backward, update; each product is timed where it happens. Bars: mlp, batch 128, adam:
 * 85 %; cifar10-cnn, batch 64: 70 %. */
#include "runtime/model.h"
#include "runtime/optimizer.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/loops.h"
#include "runtime/train/net.h"
#include "runtime/train/products.h"
#include "tests/bench/bench.h"

enum { STEPS_MAX = 100000, WARMUPS = 5 };

static void give_up(const char *what, const struct tutti_err *err)
{
    fprintf(stderr, "train_bench: %s: %s\n", what, err->text);
    exit(1);
}

/* Of this thread's own time on a processor: the machine may do other things beside. */
static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* What a look at the clock takes: each product's time has one in it, and the step two a product. */
static double clock_us(void)
{
    enum { LOOKS = 10000 };
    double start_us = now_us();

    for (int i = 0; i < LOOKS; i++)
        (void)now_us();
    return (now_us() - start_us) / LOOKS;
}

/* Products that keep their time. */
static struct tutti_products within;
static uint64_t products_count;
static double products_us;
static double products_flops;

static void timed(const struct tutti_products *self, const struct tutti_product *product)
{
    double start_us = now_us();

    (void)self;
    within.multiply(&within, product);
    products_us += now_us() - start_us;
    products_count++;
    products_flops += 2 * (double)product->rows * (double)product->columns * (double)product->depth;
}

struct bench {
    struct tutti_network *net;
    struct tutti_network_work *work;
    struct tutti_network_batch batch;
    struct tutti_update_rule rule;
    float *weights;
    float *gradients;
    float *moments[2];
    size_t elements;
    uint64_t step;
};

static float *floats(size_t count)
{
    return bench_memory((count + 1) * sizeof(float));
}

static void open_batch(struct bench *b, uint32_t count)
{
    struct tutti_network_input input = tutti_network_input(b->net);
    size_t elements = (size_t)(input.channels * input.rows * input.columns) * count;
    uint32_t *labels = calloc(count, sizeof(*labels));
    float *inputs = floats(elements);
    float *targets = floats(count * (size_t)input.targets);
    struct tutti_random random;

    if (labels == NULL)
        exit(1);
    tutti_random_seed(&random, 42);
    for (size_t i = 0; i < elements; i++)
        inputs[i] = (float)tutti_random_unit(&random);
    for (size_t i = 0; i < count * input.targets; i++)
        targets[i] = (float)tutti_random_unit(&random);
    for (uint32_t i = 0; i < count && input.classes > 0; i++)
        labels[i] = (uint32_t)tutti_random_below(&random, input.classes);
    b->batch = (struct tutti_network_batch){.inputs = inputs,
                                            .labels = labels,
                                            .targets = targets,
                                            .count = count,
                                            .gradient_scale = 1 / (float)count,
                                            .training = true};
}

static void open_net(struct bench *b, const char *model_name, uint32_t count,
                     const struct tutti_network_params *params)
{
    struct tutti_workload *model;
    struct tutti_err err;
    float *at;

    if (tutti_model_new(model_name, NULL, &model, &err) < 0 ||
        tutti_network_new(model, params, &b->net, &err) < 0 ||
        tutti_network_work_new(b->net, count, &b->work, &err) < 0)
        give_up(model_name, &err);
    tutti_model_free(model);
    b->elements = (size_t)tutti_network_elements(b->net);
    at = b->weights = floats(b->elements);
    b->gradients = floats(b->elements);
    for (int i = 0; i < 2; i++) {
        b->moments[i] = floats(b->elements);
        memset(b->moments[i], 0, b->elements * sizeof(float));
    }
    for (uint32_t i = 0; i < tutti_network_layer_count(b->net); i++) {
        tutti_network_init(b->net, 1, i, at);
        at += tutti_network_layer(b->net, i)->elements;
    }
}

/* Microseconds of the forward pass, the backward pass and the update. */
static void step(struct bench *b, double us[3])
{
    double at_us[4];
    size_t at = 0;

    at_us[0] = now_us();
    tutti_network_begin(b->work, &b->batch);
    for (uint32_t i = 0; i < tutti_network_layer_count(b->net); i++) {
        tutti_network_forward(b->work, i, b->weights + at);
        at += (size_t)tutti_network_layer(b->net, i)->elements;
    }
    at_us[1] = now_us();
    for (uint32_t i = tutti_network_layer_count(b->net); i-- > 0;) {
        at -= (size_t)tutti_network_layer(b->net, i)->elements;
        tutti_network_backward(b->work, i, b->weights + at, b->gradients + at, false);
    }
    at_us[2] = now_us();
    tutti_update_weights(&b->rule, b->rule.rate, ++b->step, 1, b->weights, b->gradients, b->moments,
                         b->elements);
    at_us[3] = now_us();
    for (int i = 0; i < 3; i++)
        us[i] = at_us[i + 1] - at_us[i];
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), bench_compare);
    return values[count / 2];
}

static int measure(struct bench *b, uint32_t steps)
{
    double *kept = calloc(6 * (size_t)steps, sizeof(*kept));
    double look_us = clock_us();
    double m[6];

    if (kept == NULL)
        return 1;
    for (uint32_t i = 0; i < steps + WARMUPS; i++) {
        double us[3];
        uint32_t at = i < WARMUPS ? 0 : i - WARMUPS;

        double all_us;

        products_us = products_flops = 0;
        products_count = 0;
        step(b, us);
        products_us -= look_us * (double)products_count;
        all_us = us[0] + us[1] + us[2] - 2 * look_us * (double)products_count;
        for (uint32_t j = 0; j < 3; j++)
            kept[j * steps + at] = us[j];
        kept[3 * steps + at] = all_us;
        kept[4 * steps + at] = products_us;
        kept[5 * steps + at] = products_us / all_us;
    }
    for (uint32_t j = 0; j < 6; j++)
        m[j] = median(kept + j * steps, steps);
    printf("step %.0f us: forward %.0f, backward %.0f, update %.0f; products by %s %.0f us (%.1f "
           "GFLOP/s), %.1f %% of the step; loops %s; loss %.4f\n",
           m[3], m[0], m[1], m[2], within.name, m[4], products_flops / m[4] * 1e-3, 100 * m[5],
           within.loops->isa, tutti_network_score(b->work).loss / b->batch.count);
    free(kept);
    return 0;
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : "mlp";
    uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 128;
    uint32_t steps = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 200;
    struct tutti_products products;
    struct tutti_network_params params = {.products = &products};
    struct bench bench = {0};
    struct tutti_err err;

    if (count == 0 || steps == 0 || steps > STEPS_MAX) {
        fprintf(stderr, "usage: train_bench [MODEL] [BATCH] [STEPS] [OPTIMIZER] [TYPE] "
                        "[openblas|loops]\n");
        return 2;
    }
    if (tutti_update_named(argc > 4 ? argv[4] : "adam", &bench.rule, &err) < 0 ||
        tutti_dtype_find(argc > 5 ? argv[5] : "float", &params.dtype, &err) < 0)
        give_up("usage", &err);
    tutti_products_open(1, &within);
    if (argc > 6 && strcmp(argv[6], "loops") == 0)
        tutti_products_by_loops(tutti_loops_at(0), &within);
    products = within;
    products.multiply = timed;
    open_net(&bench, model, count, &params);
    open_batch(&bench, count);
    return measure(&bench, steps);
}
