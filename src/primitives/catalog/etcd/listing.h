#pragma once
// Reads many keys in answers of a bounded size. Include in .cc files only.
#include <optional>
#include <string>
#include <vector>

#include "primitives/catalog/etcd/client.h"
#include "primitives/catalog/etcd/record.h"
#include "primitives/catalog/etcd/txn.h"

namespace warren::etcd {

// Where the keys of one catalog are.
struct Store {
  Client& client;
  Keys keys;
};

struct Listing {
  std::vector<pb::KeyValue> kvs;
  pb::ResponseHeader header;  // its revision is that of every page
};
// Reads all keys with this prefix at one revision: the newest when the listing began.
Async<Listing> list(Client& client, std::string prefix, Only what, Clock::time_point deadline);

// Reads each of these rows, or that it does not exist, at one revision. With 0 it reads the newest,
// which may differ between the rows.
Async<std::vector<std::optional<SeenRow>>> read_rows(Store& store, std::vector<std::string> keys,
                                                     std::int64_t revision,
                                                     Clock::time_point deadline);

}  // namespace warren::etcd
