#include "probes/probe_proof.hpp"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.hpp"

namespace trimtab::agent {

Result<ProbeChallenge> new_challenge() {
  ProbeChallenge challenge{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(challenge.data()), static_cast<int>(challenge.size())) == 1) {
    return challenge;
  }
  return unavailable("a link's probe needs random bytes, and the system gives none");
}

ProbeProof proof_of(const std::string& token, const ProbeChallenge& challenge) {
  ProbeProof proof{};
  unsigned length = 0;
  const unsigned char* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                                   reinterpret_cast<const unsigned char*>(challenge.data()), challenge.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), &length);
  TRIMTAB_ASSERT(made != nullptr && length == proof.size(), "an HMAC of SHA-256 has 32 bytes");
  return proof;
}

bool same(const ProbeProof& one, const ProbeProof& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace trimtab::agent
