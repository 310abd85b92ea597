/* What tables and people call frameworks, for all that is kept by framework. */
#ifndef TUTTI_SIM_TRAIN_FRAMEWORK_NAMES_H
#define TUTTI_SIM_TRAIN_FRAMEWORK_NAMES_H

enum tutti_framework_table {
    TUTTI_FRAMEWORK_OF_DEVICE, /* tutti_frameworks() */
    TUTTI_FRAMEWORK_OF_MEMORY, /* tutti_memory_frameworks() */
};

/* The name of a table's row that a text speaks of, in any case, or NULL. */
const char *tutti_framework_name(const char *text, enum tutti_framework_table table);

#endif
