/* A fit to tables, from its cases to the calibration that it comes to, and what is printed of it:
 * see fit_job.c, fit_print.c. */
#ifndef TUTTI_TOOLS_CALIBRATE_FIT_JOB_H
#define TUTTI_TOOLS_CALIBRATE_FIT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/fit.h"
#include "tools/calibrate/fit_cases.h"
#include "tools/calibrate/fit_values.h"

struct tutti_args;
struct tutti_command;
struct tutti_sink;

/* A fit, and the times by it, of all points. The first three are set by who opens it. */
struct tutti_fit_job {
    const struct tutti_command *command; /* that fits: progress, notes and sources say so */
    const char *again; /* without what it is fitted again, later; NULL: it is not */
    size_t a_minute; /* parameters times sizes that all fits take a minute for, on two processors */
    struct tutti_fit_cases cases;
    struct tutti_fit_values values;
    struct tutti_fit *fit;
    double *observed; /* [point] logarithms */
    double *weight;
    double *prior; /* [parameter] */
    double *sigma;
    struct tutti_fit_problem problem;
    double *seen; /* [point]: times by the fit, of what it has seen */
};

/* Room for so many, all 0; NULL: no memory. */
double *tutti_fit_numbers(size_t count);

/* Takes the tables of the set, as tutti_fit_cases_open() does; `base` is given and not fitted, and
 * borrowed until close. On failure the job is to be closed as well. */
int tutti_fit_job_open(struct tutti_measured *set, struct tutti_topo *machine,
                       const struct tutti_fit_choice *choice, uint32_t thread_count,
                       const struct tutti_calib *base, struct tutti_fit_job *job,
                       struct tutti_err *err);
void tutti_fit_job_close(struct tutti_fit_job *job);

/* The fit itself, `iteration_max` iterations at most; what takes minutes says so first. */
int tutti_fit_job_solve(struct tutti_fit_job *job, uint32_t iteration_max, struct tutti_sink *sink,
                        struct tutti_err *err);

/* What the fit came to, the caller's; its source is the command with these `words` behind it, and
 * *ret_open how many of the values the data do not tell. To the file of option --output, if it is
 * given, under the title of option --title. */
int tutti_fit_job_result(struct tutti_fit_job *job, const struct tutti_args *args,
                         const char *words, struct tutti_sink *sink, struct tutti_calib **ret,
                         size_t *ret_open, struct tutti_err *err);

/* Options of both commands that fit: which tables, and how the result is written and printed. */
#define TUTTI_FIT_OPTION_FILTER                                                  \
    {                                                                            \
        .name = "filter", .type = TUTTI_OPTION_TEXT, .value = "KEY=PATTERN,...", \
        .standard = "quality=good,nodes=..4,timing!=torch|kernel|graph",         \
        .help = "which tables to fit to"                                         \
    }

#define TUTTI_FIT_OPTIONS_RESULT                                                                 \
    {.letter = 'O',                                                                              \
     .name = "output",                                                                           \
     .type = TUTTI_OPTION_TEXT,                                                                  \
     .value = "FILE",                                                                            \
     .help = "write the calibration, which --calib of other commands takes"},                    \
        {.name = "title",                                                                        \
         .type = TUTTI_OPTION_TEXT,                                                              \
         .value = "TEXT",                                                                        \
         .standard = "fitted",                                                                   \
         .help = "what it is called"},                                                           \
    {                                                                                            \
        .name = "format", .type = TUTTI_OPTION_CHOICE, .value = "table|json|csv",                \
        .standard = "table",                                                                     \
        .help = "errors summed up; those and the values; or every size: measured, and as fitted" \
    }

/* The filter that an option says; *ret stays as it is where it has neither a value nor a standard
 * one, else it is `filter`. */
int tutti_fit_filter_read(const struct tutti_args *args, const char *name,
                          struct tutti_measured_filter *filter,
                          const struct tutti_measured_filter **ret, struct tutti_err *err);

/* -TUTTI_EINVAL: option --title is what no calibration can be called. */
int tutti_fit_title_check(const struct tutti_args *args, struct tutti_err *err);

/* Times beside those measured, and how they are headed: on a page, as a column of CSV, and before
 * the names of members of JSON. */
struct tutti_fit_times {
    const char *title;
    const char *csv;
    const char *json;
    const double *times; /* [point] logarithms */
};

enum { TUTTI_FIT_TIMES_MAX = 3 };

struct tutti_fit_report {
    const struct tutti_fit_job *job;
    const struct tutti_calib *calib;
    size_t open;      /* values of `calib` that the data leave open */
    const char *note; /* a line of '#' about the times; NULL: none */
    size_t times_count;
    struct tutti_fit_times times[TUTTI_FIT_TIMES_MAX];
};

/* As option --format asks: errors by collective and band of sizes, and the values if they are few;
 * all of it as JSON; or as CSV a row a size. */
int tutti_fit_print(const struct tutti_args *args, const struct tutti_fit_report *report,
                    struct tutti_sink *sink, struct tutti_err *err);

#endif
