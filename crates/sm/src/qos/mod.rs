//! Quality of service: lanes of service levels, arbitration between lanes, the policy of qos-policy.conf.
