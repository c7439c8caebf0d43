/* The part of librdkafka's C API that is used here. Its headers are not needed to build: names, types
 * and numbers are of its documented API, which stays as it is through all of version 2. The functions
 * are looked up by name in the library that confluent-kafka has loaded; see library.c. */
#ifndef STREAMLET_LIBRDKAFKA_H
#define STREAMLET_LIBRDKAFKA_H

#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_group_s rd_kafka_group_t;
struct rd_kafka_metadata;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *internal;
} rd_kafka_message_t;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_size;
    void *opaque;
    int err;
    void *internal;
} rd_kafka_topic_partition_t;

typedef struct {
    int cnt;
    int size;
    rd_kafka_topic_partition_t *elems;
} rd_kafka_topic_partition_list_t;

enum { RD_PRODUCER = 0, RD_CONSUMER = 1 };
enum { RD_CONF_OK = 0 };
enum { RD_ERR_FATAL = -150, RD_ERR_INVALID_ARG = -186 };
/* What producev() is given, each before its value, and that it copies. */
enum {
    RD_END = 0,
    RD_TOPIC_HANDLE = 2,
    RD_PARTITION = 3,
    RD_VALUE = 4,
    RD_KEY = 5,
    RD_FLAGS = 7,
    RD_TIMESTAMP = 8,
    RD_HEADERS = 10,
    RD_COPY = 2,
};
enum { RD_PURGE_QUEUE = 1, RD_PURGE_IN_FLIGHT = 2, RD_PURGE_NO_WAIT = 4 };

typedef void rd_error_cb(rd_kafka_t *, int code, const char *reason, void *opaque);
typedef int rd_stats_cb(rd_kafka_t *, char *json, size_t length, void *opaque);
typedef void rd_delivery_cb(rd_kafka_t *, const rd_kafka_message_t *, void *opaque);
typedef void rd_log_cb(const rd_kafka_t *, int level, const char *facility, const char *text);

/* Each function: what it returns, its name behind rd_kafka_, what it takes. */
#define LIBRDKAFKA(F) \
    F(int, version, (void)) \
    F(const char *, version_str, (void)) \
    F(const char *, err2str, (int)) \
    F(int, last_error, (void)) \
    F(rd_kafka_conf_t *, conf_new, (void)) \
    F(void, conf_destroy, (rd_kafka_conf_t *)) \
    F(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t)) \
    F(void, conf_set_opaque, (rd_kafka_conf_t *, void *)) \
    F(void, conf_set_error_cb, (rd_kafka_conf_t *, rd_error_cb *)) \
    F(void, conf_set_stats_cb, (rd_kafka_conf_t *, rd_stats_cb *)) \
    F(void, conf_set_log_cb, (rd_kafka_conf_t *, rd_log_cb *)) \
    F(void, conf_set_dr_msg_cb, (rd_kafka_conf_t *, rd_delivery_cb *)) \
    F(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t)) \
    F(void, destroy, (rd_kafka_t *)) \
    F(void *, opaque, (const rd_kafka_t *)) \
    F(const char *, name, (const rd_kafka_t *)) \
    F(int, oauthbearer_set_token, \
      (rd_kafka_t *, const char *, int64_t, const char *, const char **, size_t, char *, size_t)) \
    F(int, oauthbearer_set_token_failure, (rd_kafka_t *, const char *)) \
    F(int, fatal_error, (rd_kafka_t *, char *, size_t)) \
    F(int, set_log_queue, (rd_kafka_t *, rd_kafka_queue_t *)) \
    F(int, poll_set_consumer, (rd_kafka_t *)) \
    F(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *)) \
    F(void, queue_destroy, (rd_kafka_queue_t *)) \
    F(int, consumer_close, (rd_kafka_t *)) \
    F(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t)) \
    F(void, message_destroy, (rd_kafka_message_t *)) \
    F(int64_t, message_timestamp, (const rd_kafka_message_t *, int *)) \
    F(const char *, message_errstr, (const rd_kafka_message_t *)) \
    F(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **)) \
    F(int, header_get_all, \
      (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *)) \
    F(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, void *)) \
    F(void, topic_destroy, (rd_kafka_topic_t *)) \
    F(const char *, topic_name, (const rd_kafka_topic_t *)) \
    F(rd_kafka_topic_partition_list_t *, topic_partition_list_new, (int)) \
    F(void, topic_partition_list_destroy, (rd_kafka_topic_partition_list_t *)) \
    F(rd_kafka_topic_partition_t *, topic_partition_list_add, \
      (rd_kafka_topic_partition_list_t *, const char *, int32_t)) \
    F(rd_kafka_error_t *, incremental_assign, \
      (rd_kafka_t *, const rd_kafka_topic_partition_list_t *)) \
    F(rd_kafka_error_t *, incremental_unassign, \
      (rd_kafka_t *, const rd_kafka_topic_partition_list_t *)) \
    F(int, pause_partitions, (rd_kafka_t *, rd_kafka_topic_partition_list_t *)) \
    F(int, resume_partitions, (rd_kafka_t *, rd_kafka_topic_partition_list_t *)) \
    F(int, position, (rd_kafka_t *, rd_kafka_topic_partition_list_t *)) \
    F(int, get_watermark_offsets, \
      (rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *)) \
    F(int, metadata, \
      (rd_kafka_t *, int, rd_kafka_topic_t *, const struct rd_kafka_metadata **, int)) \
    F(void, metadata_destroy, (const struct rd_kafka_metadata *)) \
    F(int, error_code, (const rd_kafka_error_t *)) \
    F(const char *, error_string, (const rd_kafka_error_t *)) \
    F(int, error_is_fatal, (const rd_kafka_error_t *)) \
    F(int, error_is_retriable, (const rd_kafka_error_t *)) \
    F(int, error_txn_requires_abort, (const rd_kafka_error_t *)) \
    F(void, error_destroy, (rd_kafka_error_t *)) \
    F(int, producev, (rd_kafka_t *, ...)) \
    F(rd_kafka_headers_t *, headers_new, (size_t)) \
    F(void, headers_destroy, (rd_kafka_headers_t *)) \
    F(int, header_add, \
      (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t)) \
    F(int, poll, (rd_kafka_t *, int)) \
    F(int, flush, (rd_kafka_t *, int)) \
    F(int, purge, (rd_kafka_t *, int)) \
    F(int, outq_len, (rd_kafka_t *)) \
    F(rd_kafka_error_t *, init_transactions, (rd_kafka_t *, int)) \
    F(rd_kafka_error_t *, begin_transaction, (rd_kafka_t *)) \
    F(rd_kafka_error_t *, commit_transaction, (rd_kafka_t *, int)) \
    F(rd_kafka_error_t *, abort_transaction, (rd_kafka_t *, int)) \
    F(rd_kafka_error_t *, send_offsets_to_transaction, \
      (rd_kafka_t *, const rd_kafka_topic_partition_list_t *, const rd_kafka_group_t *, int)) \
    F(rd_kafka_group_t *, consumer_group_metadata_new_with_genid, \
      (const char *, int32_t, const char *, const char *)) \
    F(void, consumer_group_metadata_destroy, (rd_kafka_group_t *))

typedef struct {
#define POINTER(result, name, arguments) result(*name) arguments;
    LIBRDKAFKA(POINTER)
#undef POINTER
} Library;

#endif
