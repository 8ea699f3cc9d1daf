#pragma once
// A transaction of etcd, as sentences. Include in .cc files only.
//
//   Txn txn;
//   txn.if_exists(keys.node(session)).if_unchanged(keys.row(key), seen.revision);
//   txn.put(keys.row(key), record).erase(keys.offer(rank, key));
//   auto answer = co_await client.txn(std::move(txn.request), deadline);
#include <string>

#include "etcd.pb.h"
#include "primitives/catalog/etcd/keys.h"

namespace warren::etcd {

namespace pb = etcdserverpb;

// By default etcd takes 128 operations and 1.5 MB in a transaction, and our gRPC accepts 4 MB in an
// answer. A row has less than 200 kB.
inline constexpr std::size_t most_txn_operations = 128;
inline constexpr std::size_t most_txn_bytes = 1u << 20;

enum class Only { all, keys, count };

struct Txn {
  pb::TxnRequest request;

  Txn& if_unchanged(std::string key, std::int64_t revision) {  // 0: it does not exist
    auto& compare = *request.add_compare();
    compare.set_target(pb::Compare::MOD);
    compare.set_result(pb::Compare::EQUAL);
    compare.set_mod_revision(revision);
    compare.set_key(std::move(key));
    return *this;
  }
  Txn& if_exists(std::string key) { return if_created(std::move(key), pb::Compare::GREATER); }
  Txn& if_absent(std::string key) { return if_created(std::move(key), pb::Compare::EQUAL); }
  Txn& if_none_under(std::string prefix) {
    auto end = after_prefix(prefix);
    if_absent(std::move(prefix));
    request.mutable_compare()->rbegin()->set_range_end(std::move(end));
    return *this;
  }

  Txn& put(std::string key, std::string value = {}, std::int64_t lease = 0) {
    auto& put = *request.add_success()->mutable_request_put();
    put.set_key(std::move(key));
    put.set_value(std::move(value));
    put.set_lease(lease);
    return *this;
  }
  // Does nothing if there is no such key.
  Txn& erase(std::string key) {
    request.add_success()->mutable_request_delete_range()->set_key(std::move(key));
    return *this;
  }
  Txn& get(std::string key, Only what = Only::all) {
    return read(*request.add_success(), std::move(key), what);
  }
  Txn& get_under(std::string prefix, Only what, std::int64_t limit = 0) {
    auto& op = *request.add_success();
    auto end = after_prefix(prefix);
    read(op, std::move(prefix), what);
    op.mutable_request_range()->set_range_end(std::move(end));
    op.mutable_request_range()->set_limit(limit);
    return *this;
  }
  // If a condition does not hold.
  Txn& else_get(std::string key, Only what = Only::all) {
    return read(*request.add_failure(), std::move(key), what);
  }
  // Nested in this one, with conditions of its own.
  Txn& also(Txn inner) {
    *request.add_success()->mutable_request_txn() = std::move(inner.request);
    return *this;
  }

 private:
  Txn& if_created(std::string key, pb::Compare::CompareResult result) {
    auto& compare = *request.add_compare();
    compare.set_target(pb::Compare::CREATE);
    compare.set_result(result);
    compare.set_create_revision(0);
    compare.set_key(std::move(key));
    return *this;
  }
  Txn& read(pb::RequestOp& op, std::string key, Only what) {
    auto& range = *op.mutable_request_range();
    range.set_key(std::move(key));
    range.set_keys_only(what == Only::keys);
    range.set_count_only(what == Only::count);
    return *this;
  }
};

}  // namespace warren::etcd
