/* Commands and their option tables: parsing, --help and the man page all come from one table. */
#ifndef TUTTI_TOOLS_OPTIONS_H
#define TUTTI_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/api.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "tools/sink.h"

TUTTI_API_BEGIN

enum tutti_option_type {
    TUTTI_OPTION_FLAG,   /* takes no value */
    TUTTI_OPTION_TEXT,   /* any word */
    TUTTI_OPTION_SIZE,   /* bytes: 4K, 16M */
    TUTTI_OPTION_RATE,   /* bytes a second: 50GB/s */
    TUTTI_OPTION_TIME,   /* picoseconds: 1us */
    TUTTI_OPTION_COUNT,  /* a whole number in [min, max] */
    TUTTI_OPTION_REAL,   /* a decimal number in [min, max] */
    TUTTI_OPTION_CHOICE, /* one of the words of `value`, separated by '|' */
    TUTTI_OPTION_LIST,   /* one or more words, up to the next option; may be repeated */
};

struct tutti_option {
    char letter;      /* 'b', or 0 for none */
    const char *name; /* "minbytes"; a dash in it may be typed as an underscore */
    enum tutti_option_type type;
    const char *value;    /* what the help calls the value; CHOICE: the words, "auto|on|off" */
    const char *standard; /* the value if none is given, as one would type it; NULL: no value */
    uint64_t min;         /* COUNT, REAL; SIZE, where max is not 0 */
    uint64_t max;
    const char *help;
};

enum { TUTTI_OPTIONS_MAX = 144 };

struct tutti_args;
struct tutti_job;

/* An option that a command had once: whoever types it is told where it is now. */
struct tutti_moved_option {
    const char *name;  /* "all" */
    const char *where; /* "... is 'tutti-fit accuracy' now" */
};

struct tutti_command {
    const char *program;  /* that it is a command of; NULL: tutti */
    const char *name;     /* "predict", "topo show" */
    const char *summary;  /* one line */
    const char *operands; /* "SPEC", "" */
    uint32_t operand_min;
    uint32_t operand_max;
    const char *text;     /* paragraphs, separated by an empty line */
    const char *examples; /* command lines, one a line */
    const struct tutti_option *options;
    size_t option_count;
    const struct tutti_moved_option *moved;
    size_t moved_count;
    bool spreads; /* over the processes of a job: only the first of them prints and reports */
    /* Does it and prints to the sink alone. 0 or a negative status with the message in err; a
     * failed check returns -TUTTI_ECHECK after the results were printed. */
    int (*run)(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err);
};

struct tutti_value {
    bool given;
    const char *text; /* as typed, or the standard value, or NULL */
    uint64_t number;  /* SIZE, RATE, TIME, COUNT */
    double real;      /* REAL */
};

struct tutti_args {
    const struct tutti_command *command;
    struct tutti_value values[TUTTI_OPTIONS_MAX]; /* in the order of the option table */
    const char **words;    /* borrowed from argv: first the operands, then those of LIST */
    uint32_t *word_option; /* of each word: index of its LIST option, or UINT32_MAX: an operand */
    uint32_t word_count;
    const struct tutti_job *job; /* that this process is of: of one, unless the caller says more */
    bool help;                   /* -h or --help was among the options: do nothing else */
};

/* "tutti", or the program that the command says it is of. */
const char *tutti_command_program(const struct tutti_command *command);

/* Parses the words behind the command's name. -TUTTI_EINVAL names the word that is wrong. */
int tutti_args_parse(const struct tutti_command *command, int argc, char **argv,
                     struct tutti_args *args, struct tutti_err *err);
void tutti_args_done(struct tutti_args *args);

/* Values by long name; asking for a name or a type that the table does not have is our mistake. */
bool tutti_args_given(const struct tutti_args *args, const char *name);
bool tutti_args_flag(const struct tutti_args *args, const char *name);
const char *tutti_args_text(const struct tutti_args *args, const char *name);
bool tutti_args_is(const struct tutti_args *args, const char *name, const char *text);
uint64_t tutti_args_number(const struct tutti_args *args, const char *name);
double tutti_args_real(const struct tutti_args *args, const char *name);

/* The operand number `index`, or NULL; the word number `index` of a LIST option, or NULL. */
const char *tutti_args_operand(const struct tutti_args *args, uint32_t index);
const char *tutti_args_word(const struct tutti_args *args, const char *name, uint32_t index);

/* The words that have `text` in them, "'dgx-h100' or 'h100x'", else the nearest; NULL if none is
 * near. */
const char *tutti_alike(const char *text, const char *words, char *buf, size_t buf_bytes);

/* What --help prints, and the page of section 1 in man(7). */
void tutti_help_print(const struct tutti_command *command, FILE *out);
void tutti_man_print(const struct tutti_command *command, FILE *out);

/* The pages of all commands and of tutti itself as files in `directory`: tutti-topo-show.1. */
int tutti_man_write(const char *directory, struct tutti_sink *sink, struct tutti_err *err);

/* For the two printers: "-b, --minbytes SIZE" with its length, the text beside it, and -h, which
 * every command has. */
int tutti_option_form(const struct tutti_option *option, char *buf, size_t buf_bytes);
void tutti_option_text(const struct tutti_option *option, char *buf, size_t buf_bytes);
extern const struct tutti_option tutti_help_option;

/* All commands of `tutti` in the order in which the help lists them. */
const struct tutti_command *const *tutti_commands(size_t *ret_count);
void tutti_man_print_all(FILE *out);

TUTTI_API_END

#endif
