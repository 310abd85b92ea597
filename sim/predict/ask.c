/* A question as its caller has it, made whole: fields that later versions added, what is chosen. */
#include "sim/predict/ask.h"

#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/shape/memory.h"

const char *tutti_predict_protocol(const struct tutti_topo *topo)
{
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint8_t kind = tutti_topo_link(topo, i).kind;

        if (kind == TUTTI_LINK_NVLINK || kind == TUTTI_LINK_XGMI || kind == TUTTI_LINK_PCIE ||
            kind == TUTTI_LINK_C2C)
            return "auto";
    }
    return "none";
}

static int take(const struct tutti_ask *given, struct tutti_ask *ret, struct tutti_err *err)
{
    int status = tutti_take("tutti_ask", ret, sizeof(*ret), given,
                            TUTTI_BYTES_TO(struct tutti_ask, step_count_max), err);

    if (status == 0 && ret->topo == NULL)
        status = tutti_fail(err, TUTTI_EINVAL, "a prediction needs a topology");
    return status;
}

/* What protocols cost, where that is not said; once for all that share a memory. */
static int choose_costs(struct tutti_whole_ask *whole, struct tutti_err *err)
{
    struct tutti_ask *ask = &whole->ask;
    struct tutti_predict_memory *memory = ask->memory;
    int status;

    if (ask->protocols != NULL)
        return 0;
    if (strcmp(ask->protocol, "none") == 0) {
        ask->protocols = tutti_protocols(NULL);
        return 0;
    }
    if (memory != NULL && memory->has_costs) {
        ask->protocols = memory->costs.protocols;
        return 0;
    }
    status = tutti_calibrated_for(ask->topo, &whole->costs, err);
    if (status < 0)
        return status;
    ask->protocols = whole->costs.protocols;
    if (memory != NULL) {
        memory->costs = whole->costs;
        memory->has_costs = true;
    }
    return 0;
}

static void limit_steps(struct tutti_ask *ask)
{
    if (ask->step_count_max == 0 && strcmp(ask->algorithm, "auto") == 0)
        ask->step_count_max = TUTTI_STANDARD_STEPS;
}

int tutti_ask_make_whole(const struct tutti_ask *given, struct tutti_whole_ask *ret,
                         struct tutti_err *err)
{
    struct tutti_ask *ask = &ret->ask;
    int status = take(given, ask, err);

    if (status < 0)
        return status;
    ret->chosen = ask->algorithm == NULL && ask->topo->hardware != NULL;
    if (ask->algorithm == NULL)
        ask->algorithm = ret->chosen ? "nccl" : "auto";
    if (ask->protocol == NULL)
        ask->protocol = tutti_predict_protocol(ask->topo);
    if (ask->fold == NULL)
        ask->fold = TUTTI_STANDARD_FOLD;
    if (ask->seconds_max == 0)
        ask->seconds_max = TUTTI_STANDARD_SECONDS;
    limit_steps(ask);
    return choose_costs(ret, err);
}

void tutti_ask_do_without(struct tutti_whole_ask *whole)
{
    whole->chosen = false;
    whole->ask.algorithm = "auto";
    limit_steps(&whole->ask);
}

void tutti_left_out_note(struct tutti_left_out *left_out, const char *algorithm, int status,
                         const struct tutti_err *why)
{
    if (status != -TUTTI_ELACK && status != -TUTTI_ETIME)
        return;
    if (left_out->count++ > 0)
        return;
    left_out->algorithm = algorithm;
    (void)snprintf(left_out->why, sizeof(left_out->why), "%.*s", (int)sizeof(left_out->why) - 1,
                   why->text);
}

int tutti_ask_find_protocol(const struct tutti_ask *ask, const char *name,
                            const struct tutti_protocol **ret, struct tutti_err *err)
{
    for (size_t i = 0; i < TUTTI_PROTOCOLS; i++) {
        if (strcmp(name, ask->protocols[i].name) == 0) {
            *ret = &ask->protocols[i];
            return 0;
        }
    }
    return tutti_protocol_find(name, ret, err);
}

int tutti_ask_protocol(const struct tutti_ask *given, const char *name,
                       const struct tutti_protocol **ret, struct tutti_err *err)
{
    struct tutti_ask ask;
    int status = take(given, &ask, err);

    if (status < 0)
        return status;
    if (ask.protocols == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "the question has no costs of its own (protocols)");
    return tutti_ask_find_protocol(&ask, name, ret, err);
}
