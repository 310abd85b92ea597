/* What a training step is bound by, in words, and what would be next. */
#include <stdio.h>

#include "sim/train/train.h"

enum { PARTS = 6 };

struct part {
    const char *words;
    tutti_ps ps;
};

/* The two largest, the largest first. */
static void largest(const struct part parts[PARTS], const struct part **first,
                    const struct part **second)
{
    *first = &parts[0];
    *second = &parts[1];
    if (parts[1].ps > parts[0].ps) {
        *first = &parts[1];
        *second = &parts[0];
    }
    for (int i = 2; i < PARTS; i++) {
        if (parts[i].ps > (*first)->ps) {
            *second = *first;
            *first = &parts[i];
        } else if (parts[i].ps > (*second)->ps) {
            *second = &parts[i];
        }
    }
}

void tutti_train_say_limit(const struct tutti_train *train, struct tutti_train_answer *answer)
{
    const struct tutti_train_split *s = &answer->split;
    const struct part parts[PARTS] = {
        {"the device's work", s->compute_ps + s->slowed_ps},
        {"gradients being reduced", s->reduce_ps},
        {"weights being gathered", s->gather_ps},
        {"sums across groups", s->across_ps},
        {"the input pipeline of the host", s->input_ps},
        {"ranks that are late", s->late_ps},
    };
    const struct part *first;
    const struct part *second;
    double step = answer->step_ps > 0 ? (double)answer->step_ps : 1;

    largest(parts, &first, &second);
    /* A step that waits for the host takes as long as the host does. */
    if (s->input_ps > 0 && train->input_ps >= answer->step_ps)
        (void)snprintf(answer->limited_by, sizeof(answer->limited_by),
                       "%s (%.0f samples/s a host; %.0f %% of the step is spent waiting for it)",
                       parts[4].words,
                       train->ask.input_rate *
                           (train->ask.input_workers > 0 ? train->ask.input_workers : 1),
                       100 * (double)s->input_ps / step);
    else if (200 * second->ps > answer->step_ps)
        (void)snprintf(answer->limited_by, sizeof(answer->limited_by),
                       "%s (%.0f %%), then %s (%.0f %%)", first->words,
                       100 * (double)first->ps / step, second->words,
                       100 * (double)second->ps / step);
    else
        (void)snprintf(answer->limited_by, sizeof(answer->limited_by), "%s (%.0f %%)", first->words,
                       100 * (double)first->ps / step);
}
