/* What a step is bound by, in words, and what would be next. */
#include <stdio.h>

#include "sim/parallel/run.h"

struct part {
    const char *words;
    tutti_ps ps;
};

enum { PARTS = 11 };

static void swap_if(struct part *a, struct part *b)
{
    struct part kept = *a;

    if (b->ps <= a->ps)
        return;
    *a = *b;
    *b = kept;
}

void tutti_cut_say_limit(const struct tutti_cut_run *run, struct tutti_parallel_answer *answer)
{
    const struct tutti_parallel_split *s = &answer->split;
    struct part parts[PARTS] = {
        {"the device's work", s->compute_ps},
        {"the host, which launches more slowly than the device computes", s->host_ps},
        {"collectives of tensor parallelism", s->tensor_ps},
        {"tokens of context parallelism", s->context_ps},
        {"tokens on their way to experts", s->expert_ps},
        {"messages between stages", s->pipeline_ps},
        {"bubble", s->bubble_ps},
        {"gradients being reduced", s->data_ps},
        {"weights being gathered", s->gather_ps},
        {"the optimizer", s->optimizer_ps},
        {"the input pipeline of the host", s->input_ps},
    };
    const double step = answer->step_ps > 0 ? (double)answer->step_ps : 1;
    char cut[64] = "";

    for (int i = 1; i < PARTS; i++)
        swap_if(&parts[0], &parts[i]);
    for (int i = 2; i < PARTS; i++)
        swap_if(&parts[1], &parts[i]);
    if (parts[0].ps == s->bubble_ps || parts[1].ps == s->bubble_ps)
        (void)snprintf(cut, sizeof(cut), " (%u devices, %u micro-batch%s)", run->p.pipeline,
                       run->p.micro_batches, run->p.micro_batches == 1 ? "" : "es");
    if (200 * parts[1].ps > answer->step_ps)
        (void)snprintf(answer->limited_by, sizeof(answer->limited_by),
                       "%s (%.0f %%), then %s (%.0f %%)%s", parts[0].words,
                       100 * (double)parts[0].ps / step, parts[1].words,
                       100 * (double)parts[1].ps / step, cut);
    else
        (void)snprintf(answer->limited_by, sizeof(answer->limited_by), "%s (%.0f %%)",
                       parts[0].words, 100 * (double)parts[0].ps / step);
}
