#pragma once
// A call to the catalog about a row, while it lives.
#include <set>
#include <string>

namespace warren::fleet {

class InCall {
 public:
  InCall(std::multiset<std::string>& keys, const std::string& key)
      : keys_(keys), place_(keys.insert(key)) {}
  ~InCall() { keys_.erase(place_); }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  std::multiset<std::string>& keys_;
  std::multiset<std::string>::iterator place_;
};

}  // namespace warren::fleet
