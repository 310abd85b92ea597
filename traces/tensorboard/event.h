/* The numbers of the fields of an event (tensorboard/compat/proto: event.proto, summary.proto). */
#ifndef TUTTI_TRACES_TENSORBOARD_EVENT_H
#define TUTTI_TRACES_TENSORBOARD_EVENT_H

enum {
    TUTTI_EVENT_WALL_TIME = 1,
    TUTTI_EVENT_STEP = 2,
    TUTTI_EVENT_FILE_VERSION = 3,
    TUTTI_EVENT_SUMMARY = 5,
    TUTTI_SUMMARY_VALUE = 1,
    TUTTI_VALUE_TAG = 1,
    TUTTI_VALUE_SIMPLE = 2,
    TUTTI_VALUE_HISTOGRAM = 5,
    TUTTI_HISTOGRAM_MIN = 1,
    TUTTI_HISTOGRAM_MAX = 2,
    TUTTI_HISTOGRAM_NUM = 3,
    TUTTI_HISTOGRAM_SUM = 4,
    TUTTI_HISTOGRAM_SUM_SQUARES = 5,
    TUTTI_HISTOGRAM_LIMITS = 6, /* packed doubles, as many as counts */
    TUTTI_HISTOGRAM_COUNTS = 7,
};

#endif
