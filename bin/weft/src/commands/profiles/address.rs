//! IP addresses of profiles: with the length of a prefix, of one family, and routes.

use std::fmt;
use std::net::IpAddr;

/// An address family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn of(ip: IpAddr) -> Family {
        if ip.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Returns the length of an address in bits.
    pub fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// Returns the name of the profile's setting.
    pub fn setting(self) -> &'static str {
        match self {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        }
    }

    /// Parses an address.
    ///
    /// # Errors
    /// The text is nmcli's.
    pub fn ip(self, text: &str) -> Result<IpAddr, String> {
        let ip = text.parse().ok().filter(|ip| Family::of(*ip) == self);
        ip.ok_or_else(|| format!("Invalid {self} address '{text}'"))
    }

    /// Parses an address with the length of its prefix, by default the whole address.
    ///
    /// # Errors
    /// The text is nmcli's.
    pub fn cidr(self, text: &str) -> Result<Cidr, String> {
        let (ip, prefix) = text.split_once('/').map_or((text, None), |(ip, prefix)| (ip, Some(prefix)));
        let prefix = match prefix {
            None => self.bits(),
            Some(prefix) => {
                let number = prefix.parse().ok().filter(|number| (1..=self.bits()).contains(number));
                number.ok_or_else(|| format!("invalid prefix '{prefix}'; <1-{}> allowed", self.bits()))?
            }
        };
        Ok(Cidr { ip: self.ip(ip)?, prefix })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// An address with the length of its prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cidr {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
}

impl Cidr {
    /// Returns the network that the address is in.
    pub fn network(self) -> Cidr {
        let masked = |bits: u128, length: u8| {
            let host_bits = u32::from(length - self.prefix.min(length));
            bits & u128::MAX.checked_shl(host_bits).unwrap_or(0)
        };
        let ip = match self.ip {
            IpAddr::V4(ip) => IpAddr::V4((masked(u128::from(ip.to_bits()), 32) as u32).into()),
            IpAddr::V6(ip) => IpAddr::V6(masked(ip.to_bits(), 128).into()),
        };
        Cidr { ip, prefix: self.prefix }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// A static route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The destination's network.
    pub to: Cidr,
    /// The next hop; none for a network on the link.
    pub via: Option<IpAddr>,
    /// The metric, if the profile sets one.
    pub metric: Option<u32>,
}

impl Route {
    /// Parses a network, then a next hop and a metric if given, at blanks or commas.
    ///
    /// # Errors
    /// The text names the wrong part.
    pub fn parse(family: Family, text: &str) -> Result<Route, String> {
        let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let to = family.cidr(words.next().unwrap_or_default())?.network();
        let (mut via, mut metric) = (None, None);
        if let Some(word) = words.next() {
            match word.parse() {
                Ok(number) => metric = Some(number),
                Err(_) => via = Some(family.ip(word)?),
            }
        }
        for word in words {
            let number = word.parse().ok().filter(|_| metric.is_none());
            metric = Some(number.ok_or_else(|| format!("'{word}' is not a metric of a route"))?);
        }
        Ok(Route { to, via: via.filter(|ip| !ip.is_unspecified()), metric })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to)?;
        self.via.map_or(Ok(()), |via| write!(f, " {via}"))?;
        self.metric.map_or(Ok(()), |metric| write!(f, " {metric}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_strictly() {
        let cidr = |family: Family, text: &str| family.cidr(text).map(|cidr| cidr.to_string());
        assert_eq!(cidr(Family::V4, "192.0.2.1/24"), Ok("192.0.2.1/24".to_owned()));
        assert_eq!(cidr(Family::V6, "2001:db8:1::1"), Ok("2001:db8:1::1/128".to_owned()));
        assert_eq!(cidr(Family::V4, "192.0.2.300/24"), Err("Invalid IPv4 address '192.0.2.300'".to_owned()));
        for bad in ["192.0.2.1/33", "192.0.2.1/0", "192.0.2.1/", "192.0.2.1/-1", "2001:db8::1/64", "", "/", "1/2/3"] {
            assert!(cidr(Family::V4, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn networks_are_addresses_without_host_bits() {
        let network = |family: Family, text: &str| family.cidr(text).unwrap().network().to_string();
        assert_eq!(network(Family::V4, "192.0.2.1/24"), "192.0.2.0/24");
        assert_eq!(network(Family::V4, "192.0.2.1/32"), "192.0.2.1/32");
        assert_eq!(network(Family::V6, "2001:db8:1::1/32"), "2001:db8::/32");
        assert_eq!(network(Family::V6, "ffff::1/1"), "8000::/1");
    }

    #[test]
    fn routes_have_next_hops_and_metrics() {
        for (text, expected) in [
            ("192.168.9.0/24 10.0.0.3", "192.168.9.0/24 10.0.0.3"),
            ("192.168.9.7/24,10.0.0.3,5", "192.168.9.0/24 10.0.0.3 5"),
            ("192.168.9.0/24 7", "192.168.9.0/24 7"),
            ("192.168.9.0/24 0.0.0.0 7", "192.168.9.0/24 7"),
        ] {
            assert_eq!(Route::parse(Family::V4, text).unwrap().to_string(), expected);
        }
        for bad in ["", "x", "10.0.0.0/8 x", "10.0.0.0/8 10.0.0.1 5 6"] {
            assert!(Route::parse(Family::V4, bad).is_err(), "{bad}");
        }
    }
}
